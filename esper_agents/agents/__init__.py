"""Specialist agents: their definitions, the registry and the router."""
