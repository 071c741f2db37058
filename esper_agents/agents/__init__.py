"""Specialists: their definitions, the registry of all of them, and the router."""
