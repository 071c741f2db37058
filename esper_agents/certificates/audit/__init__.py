"""Audit of hand-written certificates: parsing, comparison with git, and checks."""
