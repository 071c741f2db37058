"""Conditions of usage entries; every function with `@condition` in these files is registered by its name."""
