"""Split untrusted Markdown into paragraphs that can be stored separately."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST = 4_000
MOST = 5_000
_ITEM = re.compile(r"\s{0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_DONE = re.compile(r"\s{0,3}(?:[-*+]|\d{1,9}[.)])\s{1,4}\[[xX]\]")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")


def paragraphs(lines: Sequence[str], *, is_list: bool) -> tuple[tuple[str, bool], ...]:
    """Return the paragraphs of a text, in order, with flags for list items whose box is ticked.

    A heading is joined with the paragraph that follows it.

    Args:
        lines: The text, line by line.
        is_list: Whether ticked boxes are significant.
    """
    pieces = list(_cut(lines))
    if len(pieces) > MOST:
        # A longer text loses nothing; its paragraphs are larger.
        together = -(-len(pieces) // MOST)
        runs = groupby(enumerate(pieces), key=lambda each: each[0] // together)
        pieces = ["\n\n".join(piece for _, piece in run) for _, run in runs]
    return tuple((each, is_list and _DONE.match(each) is not None) for each in pieces)


def _cut(lines: Sequence[str]) -> Iterator[str]:
    piece: list[str] = []
    fence = ""
    for line in lines:
        opened = _FENCE.match(line)
        begins = not fence and (_ITEM.match(line) or line.startswith("#"))
        ends = not fence and not line.strip()
        if (begins or ends) and any(each.strip() and not each.startswith("#") for each in piece):
            yield from _bounded(piece)
            piece = []
        if line.strip() or fence:
            piece.append(line)
        if opened:
            fence = "" if fence == opened[1] else fence or opened[1]
    yield from _bounded(piece)


def _bounded(piece: Sequence[str]) -> Iterator[str]:
    text = "\n".join(piece).strip("\n")
    yield from (text[at : at + LONGEST] for at in range(0, len(text), LONGEST) if text[at : at + LONGEST].strip())
