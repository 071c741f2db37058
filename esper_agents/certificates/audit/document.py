"""Data classes of a parsed hand-written document: lines, sections, fields, citations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DocumentKind(StrEnum):
    """Kind of a hand-written document."""

    CERTIFICATE = "certificate"
    WORKING_MEMORY = "working-memory"
    DECISIONS_LOG = "decisions-log"
    NEXT_ACTIONS = "next-actions"


class DocumentSection(StrEnum):
    """Section of a certificate, as defined by the template."""

    HEAD = "head"
    SCOPE = "REVIEW SCOPE"
    FINDINGS = "FINDINGS"
    DECISION = "DECISION/OUTCOME"
    EVIDENCE = "EVIDENCE"
    SIGNATURE = "SIGNATURE"
    OTHER = "other"


MANDATORY_PARTS = (
    DocumentSection.SCOPE,
    DocumentSection.FINDINGS,
    DocumentSection.DECISION,
    DocumentSection.EVIDENCE,
    DocumentSection.SIGNATURE,
)


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """Line of a document.

    Attributes:
        number: Line number, from 1.
        text: Text without the line ending.
        part: Section that contains it.
        is_code: Whether it is in a code block or in markup that is not rendered.
        is_heading: Whether it is a heading.
    """

    number: int
    text: str
    part: DocumentSection
    is_code: bool
    is_heading: bool


@dataclass(frozen=True, slots=True)
class DocumentField:
    """Named line such as `**Status**: APPROVED`.

    Attributes:
        name: Field name in lower case, such as `certificate id`.
        text: Value without surrounding markup.
        line: Line number.
        part: Section that contains it.
    """

    name: str
    text: str
    line: int
    part: DocumentSection


@dataclass(frozen=True, slots=True)
class Citation:
    """Cited file with its lines.

    Attributes:
        path: Path as written.
        first: First cited line; None if no line is cited.
        last: Last cited line.
        line: Line number of the citation.
        part: Section that contains it.
        is_of_what_is_not: Whether the surrounding words state that the file is missing or yet to be created.
    """

    path: str
    first: int | None
    last: int | None
    line: int
    part: DocumentSection
    is_of_what_is_not: bool


@dataclass(frozen=True, slots=True)
class FreehandCertificate:
    """Parsed hand-written certificate or memory document; none of its content is trusted.

    Attributes:
        name: File name.
        kind: Document kind.
        data: Bytes of the file.
        text: Decoded text; bytes that are not UTF-8 are replaced.
        lines: Lines.
        fields: Named lines, in order.
        citations: Cited files, in order, without duplicates.
        commits: Named commits with their line numbers.
    """

    name: str
    kind: DocumentKind
    data: bytes
    text: str
    lines: tuple[DocumentLine, ...]
    fields: tuple[DocumentField, ...]
    citations: tuple[Citation, ...]
    commits: tuple[tuple[str, int], ...]

    @property
    def parts(self) -> frozenset[DocumentSection]:
        """Sections that are present."""
        return frozenset(line.part for line in self.lines)

    @property
    def component(self) -> str:
        """Component named in the document."""
        return self._first("component")

    @property
    def agent(self) -> str:
        """Author named in the document."""
        return self._first("agent")

    @property
    def dated(self) -> str:
        """Date of the document, verbatim."""
        return self._first("date") or self._first("timestamp")

    @property
    def identifier(self) -> str:
        """Identifier stated in the document."""
        return self._first("certificate id")

    @property
    def statuses(self) -> tuple[DocumentField, ...]:
        """Status lines; a well-formed certificate has exactly one."""
        named = [field for field in self.fields if field.name in {"status", "decision"}]
        decided = [each for each in named if each.part is DocumentSection.DECISION]
        stated = [each for each in decided if each.name == "status"] or decided
        if stated or DocumentSection.DECISION in self.parts:
            return tuple(stated)
        return tuple(
            each
            for each in named
            if each.part not in {DocumentSection.FINDINGS, DocumentSection.SCOPE, DocumentSection.EVIDENCE}
        )

    def said(self, name: str, *parts: DocumentSection) -> tuple[DocumentField, ...]:
        """Return the fields with a name, limited to the given sections if any."""
        return tuple(field for field in self.fields if field.name == name and (not parts or field.part in parts))

    def _first(self, name: str) -> str:
        known = (*self.said(name, DocumentSection.HEAD), *self.said(name, DocumentSection.SIGNATURE), *self.said(name))
        return next((each.text for each in known if each.text), "")
