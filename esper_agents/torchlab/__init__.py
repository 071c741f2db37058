"""Measures PyTorch code in processes of its own; knows nothing of agents, sessions or SQL."""
