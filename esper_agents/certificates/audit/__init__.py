"""Audits certificates that people and models wrote by hand: what each says, and what of it does not hold."""
