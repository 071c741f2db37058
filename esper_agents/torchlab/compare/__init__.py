"""Comparison of a candidate with a baseline: equivalence first, then speed."""
