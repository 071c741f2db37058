"""Measurements with a descriptor: one file each; its name is the kind."""
