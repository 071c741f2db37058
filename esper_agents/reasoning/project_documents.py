"""Project documents as a model sees them: whole if short, else the sections for the request."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.frame import ContextDocument

# Limit of all documents together, in characters.
MOST_CHARACTERS = 6_000
# A section is divided at the first empty line after as many characters; no part has more than the second number.
_LONG, _LONGEST = 800, 3_000
_HEADING = re.compile(r"#{1,6}\s")
_FENCE = re.compile(r"\s*(```|~~~)")
_WORD = re.compile(r"[a-z][a-z0-9]{2,}")
# Headings of sections that state conventions.
_CONVENTIONS = re.compile(r"convention|style|rule|guideline|standard|practice|test|review|torch|train", re.IGNORECASE)
_COMMON = frozenset(("the", "and", "for", "are", "this", "that", "with", "from", "not", "you", "your", "can", "all"))
_OF_CONVENTION = 2


@dataclass(frozen=True, slots=True)
class _Section:
    document: int
    number: int
    text: str
    score: int


def shown_documents(documents: Sequence[ContextDocument], request: str) -> tuple[ContextDocument, ...]:
    """Return the documents as a model sees them: unchanged if they are short, else their most relevant sections.

    Args:
        documents: Documents of the project, the most important first.
        request: Request and paths of the task.
    """
    if sum(len(each.text) for each in documents) <= MOST_CHARACTERS:
        return tuple(documents)
    wanted = _words(request)
    sections = [
        _Section(at, number, text, _score(text, wanted))
        for at, document in enumerate(documents)
        for number, text in enumerate(_sections(document.text))
    ]
    kept, left = set[_Section](), MOST_CHARACTERS
    for section in sorted(sections, key=lambda each: (-each.score, each.document, each.number)):
        if len(section.text) <= left:
            kept.add(section)
            left -= len(section.text)
    of_document = (
        (document, [each for each in sections if each.document == at]) for at, document in enumerate(documents)
    )
    return tuple(_cut(document, parts, kept) for document, parts in of_document)


def _cut(document: ContextDocument, sections: Sequence[_Section], kept: set[_Section]) -> ContextDocument:
    """Return a document with the kept sections, and a remark about the others."""
    text = "".join(section.text for section in sections if section in kept)
    omitted = sum(section not in kept for section in sections)
    remark = f"({number_of(omitted, 'section')} omitted: read-file {document.path})" if omitted else ""
    return replace(document, text="\n".join(filter(None, (text.strip(), remark))))


def _sections(text: str) -> Iterator[str]:
    """Yield the parts of a Markdown text, each from a heading to the next one; long ones by paragraph."""
    part: list[str] = []
    is_code = False
    for line in text.splitlines(keepends=True):
        is_code ^= bool(_FENCE.match(line))
        is_long = not line.strip() and sum(map(len, part)) > _LONG
        if part and not is_code and (is_long or _HEADING.match(line)):
            yield _shortened("".join(part))
            part = []
        part.append(line)
    if part:
        yield _shortened("".join(part))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ...\n"


def _score(text: str, wanted: frozenset[str]) -> int:
    heading = text.partition("\n")[0]
    shared = len(wanted & _words(text)) + len(wanted & _words(heading))
    return shared + (_OF_CONVENTION if _CONVENTIONS.search(heading) else 0)


def _words(text: str) -> frozenset[str]:
    """Return the words of a text without endings, so that `tests` is `test`."""
    found = frozenset(_WORD.findall(text.casefold())) - _COMMON
    return frozenset(re.sub(r"(?:ing|ed|es|s)$", "", each) for each in found)
