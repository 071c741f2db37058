"""The cache of prompt prefixes, written and read at breakpoints."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.testing.script import InputUsage

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.testing.prompt import Prompt

_TTL_S = {"5m": 300.0, "1h": 3600.0}
_LOOKED_BACK_BLOCKS = 20
_Key: TypeAlias = tuple[str, bytes, str]


class PromptCache:
    """Simulation of the API's cache of prompt prefixes.

    Source:
        The API's page on prompt caching: a prefix is written at each breakpoint; reading searches back from each
        breakpoint over twenty blocks for the longest written prefix; a prompt below the model's minimum length is not
        cached.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty cache.

        Args:
            clock: A monotonic clock, in seconds, for the expiry of entries.
        """
        self._clock = clock
        self._good_until_s: dict[_Key, float] = {}

    def usage(self, prompt: Prompt) -> InputUsage:
        """Return the billing of a prompt in the current state of the cache."""
        marks = _breakpoints(prompt)
        hit = max((self._written(prompt, mark) for mark in marks), default=-1)
        read = until = prompt.tokens[hit + 1]
        written = dict.fromkeys(_TTL_S, 0)
        for mark in (each for each in marks if each > hit):
            written[prompt.blocks[mark].ttl] += prompt.tokens[mark + 1] - until
            until = prompt.tokens[mark + 1]
        return InputUsage(prompt.tokens[-1] - until, written["5m"], written["1h"], read)

    def keep(self, prompt: Prompt) -> None:
        """Write a prompt at its breakpoints, and renew the lifetime of the prefix that it read."""
        for mark in _breakpoints(prompt):
            good_until_s = self._clock() + _TTL_S[prompt.blocks[mark].ttl]
            for at in {mark, self._written(prompt, mark)} - {-1}:
                key = _key(prompt, at)
                self._good_until_s[key] = max(good_until_s, self._good_until_s.get(key, good_until_s))

    def _written(self, prompt: Prompt, mark: int) -> int:
        """Return the last cached block of the prompt before a breakpoint; -1 if none is cached."""
        now = self._clock()
        for at in range(mark, max(mark - _LOOKED_BACK_BLOCKS, -1), -1):
            if self._good_until_s.get(_key(prompt, at), -1.0) > now:
                return at
        return -1


def _breakpoints(prompt: Prompt) -> list[int]:
    smallest = prompt.model.smallest_cached_tokens
    return [at for at, each in enumerate(prompt.blocks) if each.ttl and prompt.tokens[at + 1] >= smallest]


def _key(prompt: Prompt, at: int) -> _Key:
    return prompt.model.name, prompt.digests[at + 1], prompt.read_as[prompt.blocks[at].role]
