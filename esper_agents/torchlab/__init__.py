"""Measurements of PyTorch code in sandboxed processes; independent of agents, sessions and SQL."""
