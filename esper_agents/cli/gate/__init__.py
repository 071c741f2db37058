"""`esper gate`: whether certificates that are genuine and current cover what is there."""

from esper_agents.cli.gate.command import register

__all__ = ["register"]
