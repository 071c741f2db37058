"""Conclusions from a memory measurement: kinds of problems and their remedies."""
