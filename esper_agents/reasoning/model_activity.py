"""Thinking, effort and output limits of model requests, by activity."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esper_agents.reasoning.models import Model

# Limits in tokens if the settings have none.
THINKING_TOKENS = ANSWER_TOKENS = 16_000
# Minimum budget that the API accepts.
LEAST_THINKING = 1_024


class ModelActivity(StrEnum):
    """Reason for which a model is asked."""

    REASON = "reason"
    CONSULT = "consult"
    SECOND_OPINION = "second_opinion"


class ThinkingMode(StrEnum):
    """Mode of thinking, in the words of the Messages API."""

    ADAPTIVE = "adaptive"
    BETWEEN_TOOLS = "between_tools"
    ENABLED = "enabled"
    DISABLED = "disabled"


class ReasoningEffort(StrEnum):
    """Effort of a model, in the words of the Messages API, least first."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


# Effort of a request that names none.
_USUAL_EFFORT = ReasoningEffort.HIGH
_EFFORTS = tuple(ReasoningEffort)


@dataclass(frozen=True, slots=True)
class ActivitySettings:
    """Settings of the requests of one activity; None is not sent, and leaves the choice to the server.

    Attributes:
        thinking: Mode of thinking.
        effort: Effort of the model.
        thinking_tokens: Limit for thinking; the exact budget for `enabled`, part of the output limit otherwise.
        answer_tokens: Limit for the answer without thinking.
    """

    thinking: ThinkingMode | None = None
    effort: ReasoningEffort | None = None
    thinking_tokens: int | None = None
    answer_tokens: int | None = None

    def tightened(self, other: ActivitySettings) -> ActivitySettings:
        """Return these settings with the limits of others where these are lower; nothing grows."""
        effort = self.effort
        if other.effort and _EFFORTS.index(other.effort) < _EFFORTS.index(effort or _USUAL_EFFORT):
            effort = other.effort
        return ActivitySettings(
            other.thinking if other.thinking is ThinkingMode.DISABLED else self.thinking,
            effort,
            _lower(self.thinking_tokens, other.thinking_tokens, THINKING_TOKENS),
            _lower(self.answer_tokens, other.answer_tokens, ANSWER_TOKENS),
        )

    def most_output(self, model: Model) -> int:
        """Return the maximum number of output tokens of a request, thinking included."""
        thinking = 0 if self.thinking is ThinkingMode.DISABLED else self._most_thinking
        return min(model.most_output, thinking + (self.answer_tokens or ANSWER_TOKENS))

    @property
    def _most_thinking(self) -> int:
        return THINKING_TOKENS if self.thinking_tokens is None else self.thinking_tokens

    def members(self, most_output: int) -> dict[str, Any]:
        """Return the members of a request with an output limit; empty if nothing is set."""
        sent: dict[str, Any] = {}
        if self.thinking is ThinkingMode.ENABLED:
            # At least half of the output is left for the answer, also if a budget limits it.
            budget = min(self._most_thinking, most_output // 2)
            is_possible = budget >= LEAST_THINKING
            sent["thinking"] = {"type": "enabled", "budget_tokens": budget} if is_possible else {"type": "disabled"}
        elif self.thinking is not None:
            sent["thinking"] = {"type": self.thinking.value}
        if self.effort is not None:
            sent["output_config"] = {"effort": self.effort.value}
        return sent


def _lower(own: int | None, other: int | None, usual: int) -> int | None:
    """Return the lower of two limits, the first of which may be the usual one."""
    return own if other is None or other >= (usual if own is None else own) else other
