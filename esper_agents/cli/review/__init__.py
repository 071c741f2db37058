"""`esper review`: runs the lint rules without a session or a certificate."""

from esper_agents.cli.review.command import register

__all__ = ["register"]
