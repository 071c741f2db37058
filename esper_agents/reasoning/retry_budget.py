"""Retry and token limits of one model action."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esper_agents.errors import ModelBusyError
from esper_agents.reasoning.models import Usage
from esper_agents.reasoning.reasoner import ProgramNotice

if TYPE_CHECKING:
    from esper_agents.errors import ModelError
    from esper_agents.reasoning.models import Model
    from esper_agents.reasoning.reasoner import Say

# How often requests of one move are made again after they failed, whether before the first byte or in the middle of the
# stream. The SDK makes none again.
MOST_RETRIES = 4
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 8.0
# Who is to wait longer, by the server's own word, is told so at once.
_MOST_WAIT_S = 120.0


class TransientError(Exception):
    """Trouble that may have passed when the request is made again.

    Attributes:
        error: What is raised when it has not.
        wait_s: How long the server wants to be left alone, in seconds; None where it does not say.
    """

    def __init__(self, error: ModelError, wait_s: float | None = None) -> None:
        super().__init__(error.problem)
        self.error = error
        self.wait_s = wait_s


@dataclass(slots=True)
class RetryBudget:
    """The tries of one move.

    Attributes:
        model: Who is asked, for the price; None where nobody wants to know.
        left: How often a request may still be made again.
        usage: The tokens of all answers, those that came to nothing among them.
        money: What they cost, in millionths of a US dollar.
    """

    model: Model | None = None
    left: int = MOST_RETRIES
    usage: Usage = field(default_factory=Usage)
    money: int = 0

    def count(self, usage: Usage) -> None:
        """Add what an answer has used."""
        self.usage += usage
        self.money += self.model.cost(usage) if self.model else 0

    async def wait(self, trouble: TransientError, say: Say) -> None:
        """Wait until a request may be made again, and tell who watches.

        Args:
            trouble: What went wrong with it.
            say: Takes the words.

        Raises:
            ModelError: It was made often enough, or the server wants to be left alone for too long.
        """
        error, made = trouble.error, MOST_RETRIES - self.left
        if not self.left:
            raise type(error)(f"{error.problem} (asked {made + 1} times)", remedy=error.remedy) from trouble
        wait_s = trouble.wait_s or min(_FIRST_WAIT_S * 2**made, _LONGEST_WAIT_S) * (1 - random.random() / 4)  # noqa: S311 - no secret
        if wait_s > _MOST_WAIT_S:
            problem = f"{error.problem} (for the next {wait_s:.0f} s, as it says)"
            raise ModelBusyError(problem, remedy=error.remedy) from trouble
        self.left -= 1
        say(ProgramNotice(f"{error.problem}; it is asked again in {wait_s:.1f} s ({made + 1} of {MOST_RETRIES})"))
        await asyncio.sleep(wait_s)
