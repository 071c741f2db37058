"""Find the API or option that a direct question is about, such as `is retain_graph needed?`."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from esper_agents.domain.request import UsageReference
from esper_agents.requests.vocabulary import PhraseMatch, PhraseTable, request_words
from esper_agents.review.usages.entries import usage_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.review.usages.entries import UsageEntry

# A longer text describes a problem; its question is about that.
_MOST_CHARACTERS = 600
_MOST_USAGES = 2
# Such a mention counts only as it is written.
_IS_CODE = re.compile(r"[.()=]")
_SENTENCE = re.compile(r"[^?!\n;]+[?!\n;]?")


@cache
def _mentions() -> tuple[PhraseTable, tuple[tuple[str, re.Pattern[str]], ...]]:
    """Return the phrases of words, and the patterns of those written as code, such as `.data` or `strict=False`."""
    words = {name: [each for each in entry.mentions if not _IS_CODE.search(each)] for name, entry in _entries()}
    written = [(name, each) for name, entry in _entries() for each in entry.mentions if _IS_CODE.search(each)]
    return PhraseTable(words), tuple((name, _pattern(each)) for name, each in written)


def _entries() -> Iterable[tuple[str, UsageEntry]]:
    return usage_entries().items()


def _pattern(phrase: str) -> re.Pattern[str]:
    parts = (re.escape(part).replace(r"\*", r"\w*").replace("=", r"\s*=\s*") for part in phrase.split())
    begin = r"(?<!\w)" if phrase[0].isalnum() else ""
    end = r"(?!\w)" if phrase[-1].isalnum() else ""
    return re.compile(begin + r"\s+".join(parts) + end, re.IGNORECASE)


@cache
def _forms() -> PhraseTable:
    return PhraseTable({"question": request_words()["usage"]["questions"]})


@cache
def _others() -> PhraseTable:
    """Return the words of requests that want something else, which an API is only named in."""
    return PhraseTable({"other": request_words()["usage"]["others"]})


@cache
def _line() -> re.Pattern[str]:
    words = "|".join(map(re.escape, request_words()["usage"]["line"]))
    return re.compile(rf"(?:\b(?:{words})\.?\s*|:|\bL)(?P<line>\d{{1,6}})\b", re.IGNORECASE)


def usage_references(prose: str, line: int = 0) -> tuple[UsageReference, ...]:
    """Return the APIs that a request asks a direct question about; empty if it asks about something else.

    Args:
        prose: Words of the request, with code in the text and without pasted code.
        line: Line that the request names with a file, else 0.
    """
    text = prose.replace("`", "").strip()
    if not text or len(text) > _MOST_CHARACTERS or _others().matches(text):
        return ()
    if not line and (named := _line().search(text)):
        line = int(named["line"])
    found: dict[str, UsageReference] = {}
    for sentence in _SENTENCE.findall(text):
        if not _forms().matches(sentence):
            continue
        for match in _longest(_mentioned(sentence)):
            found.setdefault(match.group, UsageReference(sentence[match.begin : match.end], match.group, line))
    return tuple(found.values())[:_MOST_USAGES]


def _mentioned(sentence: str) -> list[PhraseMatch]:
    words, written = _mentions()
    found = [
        PhraseMatch(name, at.start(), at.end(), is_weak=False)
        for name, each in written
        for at in each.finditer(sentence)
    ]
    return sorted((*words.matches(sentence), *found), key=lambda match: (match.begin, -match.end))


def _longest(matches: list[PhraseMatch]) -> Iterator[PhraseMatch]:
    """Yield the matches that no longer one contains."""
    for match in matches:
        if not any(
            other.begin <= match.begin and match.end <= other.end and other.end - other.begin > match.end - match.begin
            for other in matches
        ):
            yield match
