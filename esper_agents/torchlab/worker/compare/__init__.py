"""Equivalence checks of two targets."""
