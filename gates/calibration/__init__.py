"""Simulated truths through the real gate code."""
