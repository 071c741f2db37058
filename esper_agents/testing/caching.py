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
    """Remembers prefixes of prompts as the API does.

    Source:
        The API's page on prompt caching: a prefix is written where a breakpoint is; from each breakpoint the longest
        prefix that was written is looked for over twenty blocks; a prompt below the model's minimum is not cached.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin empty.

        Args:
            clock: Seconds that never go back; what is cached expires by it.
        """
        self._clock = clock
        self._good_until_s: dict[_Key, float] = {}

    def usage(self, prompt: Prompt) -> InputUsage:
        """Return how a prompt would be billed now."""
        marks = _breakpoints(prompt)
        hit = max((self._written(prompt, mark) for mark in marks), default=-1)
        read = until = prompt.tokens[hit + 1]
        written = dict.fromkeys(_TTL_S, 0)
        for mark in (each for each in marks if each > hit):
            written[prompt.blocks[mark].ttl] += prompt.tokens[mark + 1] - until
            until = prompt.tokens[mark + 1]
        return InputUsage(prompt.tokens[-1] - until, written["5m"], written["1h"], read)

    def keep(self, prompt: Prompt) -> None:
        """Write a prompt at its breakpoints; the prefix that it read is good for as long again."""
        for mark in _breakpoints(prompt):
            good_until_s = self._clock() + _TTL_S[prompt.blocks[mark].ttl]
            for at in {mark, self._written(prompt, mark)} - {-1}:
                key = _key(prompt, at)
                self._good_until_s[key] = max(good_until_s, self._good_until_s.get(key, good_until_s))

    def _written(self, prompt: Prompt, mark: int) -> int:
        """Return the last block, seen from a breakpoint, up to which the prompt is cached; -1 where it is not."""
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
