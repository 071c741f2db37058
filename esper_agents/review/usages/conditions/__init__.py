"""Conditions of usage entries: each function with `@condition` in these files."""
