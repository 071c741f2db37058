"""`esper gate`: requires valid certificates for files, as an exit code for CI."""

from esper_agents.cli.gate.command import register

__all__ = ["register"]
