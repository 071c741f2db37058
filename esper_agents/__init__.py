"""Specialist agents for PyTorch whose every judgement is a certificate that rests on recorded evidence."""
