"""Sentences of a request that give orders to the router; they are data, like every other sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SENTENCE = re.compile(
    r"[^.!?\n\u3002\uff01\uff1f]+(?:[.!?]+(?!\s|$)[^.!?\n\u3002\uff01\uff1f]*)*[.!?\u3002\uff01\uff1f]*"
)
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|rules?|prompts?|polic(?:y|ies)|routing|router)\b"
    r"|\bsystem (?:notice|override|note|prompt)\b|\brequests? (?:must|should|shall) go to\b"
    r"|\byou are (?:now|no longer)\b|\broute everything\b|\banswer with\b"
    r"|\byou must (?:answer|route|choose|select|pick|reply|respond|send)\b",
    re.IGNORECASE,
)


def order_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each sentence that gives orders to the router."""
    if _ORDER.search(text) is None:
        return
    for sentence in _SENTENCE.finditer(text):
        if _ORDER.search(sentence.group()):
            yield sentence.span()
