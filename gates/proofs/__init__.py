"""Exactness proofs: enumeration, invariants, replay, Monte Carlo, conformance."""
