"""Retry and token limits of one model action."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esper_agents.domain.program_notice import ProgramNotice
from esper_agents.errors import ModelBusyError
from esper_agents.reasoning.models import Usage

if TYPE_CHECKING:
    from esper_agents.errors import ModelError
    from esper_agents.reasoning.models import Model
    from esper_agents.reasoning.reasoner import Say

# Maximum number of retries of one action, before the first byte or within the stream. The SDK itself does not
# retry.
MOST_RETRIES = 4
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 8.0
# If the server requests a longer delay, the error is raised at once.
_MOST_WAIT_S = 120.0


class TransientError(Exception):
    """Transient error of a request that may be retried.

    Attributes:
        error: Error to raise if the retries fail.
        wait_s: Delay that the server requests, in seconds; None if it requests none.
    """

    def __init__(self, error: ModelError, wait_s: float | None = None) -> None:
        super().__init__(error.problem)
        self.error = error
        self.wait_s = wait_s


@dataclass(slots=True)
class RetryBudget:
    """Retry budget of one action.

    Attributes:
        model: Requested model, for its prices; None if the cost is not needed.
        left: Number of remaining retries.
        usage: Token usage of all answers, including discarded ones.
        money: Cost of all answers in millionths of a US dollar.
    """

    model: Model | None = None
    left: int = MOST_RETRIES
    usage: Usage = field(default_factory=Usage)
    money: int = 0

    def count(self, usage: Usage) -> None:
        """Add the usage of an answer."""
        self.usage += usage
        self.money += self.model.cost(usage) if self.model else 0

    async def wait(self, trouble: TransientError, say: Say) -> None:
        """Wait until a request may be retried, and report the delay.

        Args:
            trouble: Error of the request.
            say: Receives the notice.

        Raises:
            ModelError: No retries remain, or the requested delay is too long.
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
