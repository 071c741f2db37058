"""Parse a hand-written document; malformed input never raises an error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.citation_parser import LONGEST_LINE, cited_in, commits_in, without_escapes
from esper_agents.certificates.audit.document import (
    Citation,
    DocumentField,
    DocumentKind,
    DocumentLine,
    DocumentSection,
    FreehandCertificate,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from markdown_it.token import Token

MEMORY = {
    "working-memory.md": DocumentKind.WORKING_MEMORY,
    "decisions-log.md": DocumentKind.DECISIONS_LOG,
    "next-actions.md": DocumentKind.NEXT_ACTIONS,
}
STAMPED = re.compile(r".*_\d{8}_\d{6}.*\.md", re.IGNORECASE)
_MOST_CITATIONS = 2000
_LONGEST_HEADING = 120
_MOST_WORDS = 4
_BOLD_LEVEL = 7
_NOT_A_LETTER = re.compile(r"[^A-Z]+")
_BOLD = re.compile(r"\s{0,3}(?:\*\*|__)([^*_]{1,80})(?:\*\*|__):?\s*")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})\s*(?:markdown|md)?\s*")
_FIELD = re.compile(
    r"(component|agent|date(?: issued)?|certificate id|status|decision|rationale|timestamp|(?:certificate )?hash|"
    r"conditions?(?: for [a-z ]{1,30})?|last updated|updated)"
    r"[\s*_]{0,8}(?:\([^)]{0,40}\))?[\s*_]{0,8}[:|](.*)",
    re.IGNORECASE,
)
_ROUND_A_FIELD = " \t>*+-|_#\u2022"
_ROUND_A_VALUE = " \t*|_\\"
_SAME = {"date issued": "date", "hash": "certificate hash", "last updated": "updated"}


@dataclass(frozen=True, slots=True)
class _Heading:
    index: int
    level: int
    part: DocumentSection | None


def read_document(name: str, data: bytes) -> FreehandCertificate:
    """Parse a document.

    Args:
        name: File name.
        data: Bytes of the file.
    """
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = _lines(re.split(r"\r\n|\r|\n", text))
    fields = tuple(field for line in lines if not line.is_code for field in _fields(line))
    return FreehandCertificate(
        name=name,
        kind=MEMORY.get(name.lower(), DocumentKind.CERTIFICATE),
        data=data,
        text=text,
        lines=lines,
        fields=fields,
        citations=_citations(lines),
        commits=_commits(lines),
    )


def looks_like_certificate(document: FreehandCertificate) -> bool:
    """Return whether a document should be audited: a memory document, or text with certificate features."""
    if document.kind is not DocumentKind.CERTIFICATE or STAMPED.fullmatch(document.name):
        return True
    title = next((line.text for line in document.lines if line.is_heading), "")
    signs = (
        "CERTIFICATE" in title.upper(),
        bool(document.said("certificate id")),
        bool(document.said("certificate hash")),
        DocumentSection.DECISION in document.parts,
        bool(document.said("component")) and bool(document.said("agent")),
    )
    return sum(signs) >= 2  # noqa: PLR2004 - one sign alone is found in any text


def _lines(texts: Sequence[str]) -> tuple[DocumentLine, ...]:
    first, last = _unwrapped(texts)
    inside = texts[first:last]
    code, headings = _structure(inside)
    parts = _parts(inside, code, headings)
    at = {heading.index for heading in headings}
    wrapping = [
        DocumentLine(number, "", DocumentSection.HEAD, is_code=True, is_heading=False) for number in range(1, first + 1)
    ]
    body = [
        DocumentLine(first + index + 1, text, parts[index], is_code=index in code, is_heading=index in at)
        for index, text in enumerate(inside)
    ]
    return (*wrapping, *body)


def _unwrapped(texts: Sequence[str]) -> tuple[int, int]:
    """Return the first and last index of the document; models often wrap a whole document in a code block."""
    filled = [index for index, text in enumerate(texts) if text.strip()]
    if len(filled) > 1:
        start, end = _FENCE.fullmatch(texts[filled[0]][:100]), _FENCE.fullmatch(texts[filled[-1]][:100])
        if start and end and end.group(1)[:3] == start.group(1)[:3] and len(end.group(1)) >= len(start.group(1)):
            return filled[0] + 1, filled[-1]
    return 0, len(texts)


def _structure(texts: Sequence[str]) -> tuple[frozenset[int], list[_Heading]]:
    from markdown_it import MarkdownIt

    # Headings and code blocks are enough. Lists, quotations and indented text are read as lines, because indented text
    # is more often a nested list than code.
    parser = MarkdownIt("zero").enable(["fence", "heading", "lheading", "html_block"])
    parser.core.ruler.disable(["inline", "text_join"])
    # NUL and the line ends that Python accepts but CommonMark does not are excluded from the structure.
    tokens = parser.parse("\n".join(re.sub(r"[\x00\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", " ", each) for each in texts))
    code = frozenset(index for token in tokens if _is_hidden(token) for index in range(*(token.map or (0, 0))))
    headings = [
        _heading((each.map or [0])[0], int(each.tag[1:]), tokens[index + 1].content)
        for index, each in enumerate(tokens)
        if each.type == "heading_open"
    ]
    # A rule below a paragraph turns it into a heading, which is only intended for the section titles.
    headings = [
        heading for heading in headings if heading.part is not None or texts[heading.index].lstrip().startswith("#")
    ]
    bold = [
        _heading(index, _BOLD_LEVEL, found.group(1))
        for index, text in enumerate(texts)
        if index not in code and len(text) <= _LONGEST_HEADING and (found := _BOLD.fullmatch(text))
    ]
    known = {heading.part for heading in headings}
    missing = [each for each in bold if each.part is not None and each.part not in known]
    return code, sorted((*headings, *missing), key=lambda each: each.index)


def _is_hidden(token: Token) -> bool:
    return token.type == "fence" or (token.type == "html_block" and "<!--" in token.content)


def _heading(index: int, level: int, title: str) -> _Heading:
    words = _NOT_A_LETTER.sub(" ", title[:_LONGEST_HEADING].upper()).split()
    if not words or len(words) > _MOST_WORDS:
        return _Heading(index, level, None)
    known = {
        "SCOPE": DocumentSection.SCOPE,
        "FINDINGS": DocumentSection.FINDINGS,
        "DECISION": DocumentSection.DECISION,
        "OUTCOME": DocumentSection.DECISION,
        "EVIDENCE": DocumentSection.EVIDENCE,
        "SIGNATURE": DocumentSection.SIGNATURE,
    }
    return _Heading(index, level, next((known[word] for word in words if word in known), None))


def _parts(texts: Sequence[str], code: frozenset[int], headings: Sequence[_Heading]) -> list[DocumentSection]:
    """Return the section of each line; a heading deeper than the section headings stays in its section."""
    levels = [each.level for each in headings if each.part is not None and each.level < _BOLD_LEVEL]
    top = min(levels, default=_BOLD_LEVEL)
    starts = {each.index: each for each in headings if each.index not in code}
    now, parts = DocumentSection.HEAD, []
    for index in range(len(texts)):
        if heading := starts.get(index):
            if heading.part is not None and heading.level in {top, _BOLD_LEVEL}:
                now = heading.part
            elif heading.level <= top and now is not DocumentSection.HEAD:
                now = DocumentSection.OTHER
        parts.append(now)
    return parts


def _fields(line: DocumentLine) -> Iterable[DocumentField]:
    bare = line.text[:LONGEST_LINE].strip(_ROUND_A_FIELD)
    found = _FIELD.match(bare)
    if found is None:
        return
    name = " ".join(found.group(1).lower().split())
    known = "conditions" if name.startswith("condition") else _SAME.get(name, name)
    yield DocumentField(known, _without_markup(found.group(2)), line.number, line.part)


def _without_markup(text: str) -> str:
    bare = text.strip(_ROUND_A_VALUE)
    return bare.strip("`").strip() if bare.count("`") in {1, 2} else bare


def _citations(lines: Iterable[DocumentLine]) -> tuple[Citation, ...]:
    found: dict[tuple[object, ...], Citation] = {}
    for line in lines:
        if line.is_code:
            continue
        for each in cited_in(without_escapes(line.text)):
            if len(found) >= _MOST_CITATIONS:
                return tuple(found.values())
            citation = Citation(each.path, each.first, each.last, line.number, line.part, each.is_of_what_is_not)
            found.setdefault((each.path, each.first, each.last, each.is_of_what_is_not), citation)
    return tuple(found.values())


def _commits(lines: Iterable[DocumentLine]) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for line in lines:
        for each in commits_in(line.text):
            found.setdefault(each, line.number)
    return tuple(list(found.items())[:_MOST_CITATIONS])
