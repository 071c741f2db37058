"""`esper review`: the review engine alone, without a session or a certificate."""

from esper_agents.cli.review.command import register

__all__ = ["register"]
