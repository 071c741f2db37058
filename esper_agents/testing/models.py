"""Features that the Messages API supports for each model name.

Sources:
    The pages on prompt caching, thinking, preserved thinking, mid-conversation system messages and errors of the API's
    documentation, and the release notes of Opus 4.7, 4.8 and 5.5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r"claude-(?P<family>[a-z]+)-(?P<major>\d)(?:-(?P<minor>\d))?(?:-\d{8})?")
_SMALLEST_CACHED_TOKENS = {
    ("opus", 4, 5): 4096,
    ("opus", 4, 6): 4096,
    ("opus", 4, 7): 2048,
    ("haiku", 4, 5): 4096,
}
_CACHES_SMALL_PROMPTS = frozenset({"opus", "fable", "mythos"})
_MAY_DISABLE_THINKING = frozenset({"sonnet", "haiku"})


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Rules for one model.

    Attributes:
        name: The model's name.
        family: Model family, such as `opus`.
        generation: Version, such as (5, 5).
    """

    name: str
    family: str
    generation: tuple[int, int]

    @property
    def takes_prefill(self) -> bool:
        """Whether a request may end with the beginning of the response."""
        return self.generation < (4, 6)

    @property
    def takes_thinking_budget(self) -> bool:
        """Whether thinking can be enabled with a token budget."""
        return self.generation < (4, 7)

    @property
    def thinks_adaptively(self) -> bool:
        """Whether the model can decide on thinking itself."""
        return self.generation >= (4, 6)

    @property
    def always_thinks(self) -> bool:
        """Whether thinking cannot be disabled; such a model cannot be forced to use a tool either."""
        return self.generation >= (5, 1) and self.family not in _MAY_DISABLE_THINKING

    @property
    def thinks_unasked(self) -> bool:
        """Whether thinking is on if the request does not configure it."""
        return self.generation >= (5, 0)

    @property
    def omits_thinking(self) -> bool:
        """Whether thinking blocks have no text unless the request asks for it."""
        return self.generation >= (4, 7)

    @property
    def binds_thinking(self) -> bool:
        """Whether thinking blocks are valid only after exactly the prompt they were generated for."""
        return self.generation >= (5, 1)

    @property
    def takes_system_messages(self) -> bool:
        """Whether system messages are allowed within a conversation."""
        return self.generation >= (4, 8)

    @property
    def smallest_cached_tokens(self) -> int:
        """Minimum length of a cached prompt."""
        small = 512 if self.generation >= (5, 0) and self.family in _CACHES_SMALL_PROMPTS else 1024
        return _SMALLEST_CACHED_TOKENS.get((self.family, *self.generation), small)

    @property
    def largest_output_tokens(self) -> int:
        """Maximum value of `max_tokens`."""
        return 128_000 if self.generation >= (4, 6) else 64_000

    @property
    def window_tokens(self) -> int:
        """Maximum length of a prompt."""
        return 1_000_000 if self.generation >= (4, 6) else 200_000


def rules_of(name: str) -> ModelRules | None:
    """Return the rules for a model, or None if the name is unknown."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return ModelRules(name, found["family"], (int(found["major"]), int(found["minor"] or 0)))
