"""Saboteurs: planted faults that a gate or audit of a user's plan must catch, and equivalents that must pass."""
