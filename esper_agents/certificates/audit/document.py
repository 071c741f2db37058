"""Data classes of a parsed hand-written document: lines, sections, fields, citations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DocumentKind(StrEnum):
    """What sort of document it is."""

    CERTIFICATE = "certificate"
    WORKING_MEMORY = "working-memory"
    DECISIONS_LOG = "decisions-log"
    NEXT_ACTIONS = "next-actions"


class DocumentSection(StrEnum):
    """A part of a certificate, as the template divides it."""

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
    """One line.

    Attributes:
        number: From 1.
        text: The line, without its end.
        part: The part it stands in.
        is_code: Whether it stands in a code block, or in markup that is not shown.
        is_heading: Whether it is a heading.
    """

    number: int
    text: str
    part: DocumentSection
    is_code: bool
    is_heading: bool


@dataclass(frozen=True, slots=True)
class DocumentField:
    """A named line such as `**Status**: APPROVED`.

    Attributes:
        name: In small letters, such as `certificate id`.
        text: What it says, without markup round it.
        line: Where it stands.
        part: The part it stands in.
    """

    name: str
    text: str
    line: int
    part: DocumentSection


@dataclass(frozen=True, slots=True)
class Citation:
    """A file that is named, and the lines of it.

    Attributes:
        path: As it is written.
        first: The first line that is cited; None where no line is.
        last: The last one.
        line: Where the citation stands.
        part: The part it stands in.
        is_of_what_is_not: Whether the words round it say that the file is missing, or yet to be made.
    """

    path: str
    first: int | None
    last: int | None
    line: int
    part: DocumentSection
    is_of_what_is_not: bool


@dataclass(frozen=True, slots=True)
class FreehandCertificate:
    """A certificate, or a memory document, that somebody typed; nothing of it is vouched for.

    Attributes:
        name: The name of its file.
        kind: What sort of document it is.
        data: Its bytes.
        text: Its text, what is not UTF-8 replaced.
        lines: Its lines.
        fields: Its named lines, in order.
        citations: What it cites, in order, each once.
        commits: The commits that it names, each with its line.
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
        """The parts that it has."""
        return frozenset(each.part for each in self.lines)

    @property
    def component(self) -> str:
        """What it says was judged."""
        return self._first("component")

    @property
    def agent(self) -> str:
        """Who it says wrote it."""
        return self._first("agent")

    @property
    def dated(self) -> str:
        """The date that it gives for itself, as it is written."""
        return self._first("date") or self._first("timestamp")

    @property
    def identifier(self) -> str:
        """What it calls itself."""
        return self._first("certificate id")

    @property
    def statuses(self) -> tuple[DocumentField, ...]:
        """What it concludes: one line where it is in order."""
        named = [each for each in self.fields if each.name in {"status", "decision"}]
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
        """Return the fields of a name, in these parts where some are named."""
        return tuple(each for each in self.fields if each.name == name and (not parts or each.part in parts))

    def _first(self, name: str) -> str:
        known = (*self.said(name, DocumentSection.HEAD), *self.said(name, DocumentSection.SIGNATURE), *self.said(name))
        return next((each.text for each in known if each.text), "")
