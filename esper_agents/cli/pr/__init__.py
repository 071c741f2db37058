"""`esper pr`: reviews a branch and reports it on its pull request."""

from esper_agents.cli.pr.command import register

__all__ = ["register"]
