"""Specialist agents for PyTorch whose verdicts are certificates based on recorded evidence."""
