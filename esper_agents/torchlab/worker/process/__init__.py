"""Measurement processes: fork server, confinement, messages."""
