"""`esper torch`: measures PyTorch code in processes of its own."""

from esper_agents.cli.torch.command_group import register

__all__ = ["register"]
