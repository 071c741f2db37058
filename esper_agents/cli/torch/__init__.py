"""`esper torch`: commands that measure PyTorch code in sandboxed processes."""

from esper_agents.cli.torch.command_group import register

__all__ = ["register"]
