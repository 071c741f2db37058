"""Observe one call of a target, and run a drafted test of it."""
