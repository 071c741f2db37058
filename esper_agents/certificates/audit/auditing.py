"""Audit files and folders of hand-written certificates with every check."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.checks import does_compare, load_checks
from esper_agents.certificates.audit.date_spans import moment_in_name, read_moment
from esper_agents.certificates.audit.document import DocumentKind, FreehandCertificate
from esper_agents.certificates.audit.document_parser import MEMORY, STAMPED, looks_like_certificate, read_document
from esper_agents.certificates.audit.files import UnreadableError, find_documents, read_bytes
from esper_agents.certificates.audit.problem import AuditProblem, undecided
from esper_agents.certificates.audit.status import read_status
from esper_agents.certificates.audit.subject import AuditContext, StatedConclusion, Subject
from esper_agents.certificates.check import CheckOutcome
from esper_agents.certificates.views.file_names import slugify
from esper_agents.errors import ExitCode, InputFileError
from esper_agents.git.history import GitHistory
from esper_agents.git.process import toplevel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

MEANING = {"unreadable": "it cannot be read as text", "more": "it has more problems than are listed"}
_MOST_PROBLEMS = 1000
_MOST_PATHS = 200


@dataclass(frozen=True, slots=True)
class AuditedDocument:
    """Audit result of one document.

    Attributes:
        path: Path as displayed.
        file: Absolute path of the file.
        kind: Document kind.
        sha256: SHA-256 digest of its bytes; empty if they could not be read.
        agent: Author named in the document.
        status: Status stated in the document, verbatim.
        component: Component named in the document.
        dated: Date stated in the document, verbatim.
        problems: Failed and undecided checks.
    """

    path: str
    file: Path
    kind: DocumentKind
    sha256: str
    agent: str
    status: str
    component: str
    dated: str
    problems: tuple[AuditProblem, ...]


@dataclass(frozen=True, slots=True)
class DocumentAudit:
    """Result of an audit.

    Attributes:
        documents: Audited documents, sorted by path.
        passed_over: Number of Markdown files that are neither certificates nor memory documents.
        left_out: Skipped files and folders, with the reason.
    """

    documents: tuple[AuditedDocument, ...]
    passed_over: int
    left_out: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Number of documents with each problem, by problem code."""
        found = Counter(code for document in self.documents for code in {problem.code for problem in document.problems})
        return dict(sorted(found.items()))

    @property
    def exit_code(self) -> ExitCode:
        """7 if a check failed, else 4 if a check is undecided or a file was skipped, else 0."""
        outcomes = {problem.outcome for document in self.documents for problem in document.problems}
        if CheckOutcome.FAILS in outcomes:
            return ExitCode.TAMPERED
        return ExitCode.UNDECIDED if CheckOutcome.CANNOT_DECIDE in outcomes or self.left_out else ExitCode.DONE


def audit(paths: Sequence[Path], around: AuditContext, here: Path) -> DocumentAudit:
    """Audit hand-written documents.

    Memory use does not grow with their number: documents are not kept, and those to be compared are read again.

    Args:
        paths: Files and folders; a file named explicitly is audited whatever its content.
        around: Shared context of the checks; the stated conclusions of all certificates are added to it.
        here: Folder to which displayed paths are relative.

    Raises:
        InputFileError: A path does not exist, or no path contains a certificate or a memory document.
    """
    found = find_documents(paths)
    with ExitStack() as ends:
        reader = _Reader(found.files, found.named, here, ends)
        documents = []
        for subject in reader.subjects():
            if subject.document.kind is DocumentKind.CERTIFICATE:
                around.standings.add(_standing(subject))
            documents.append(_audited(subject, _problems(subject, around, compares=False)))
        documents = [_compared(document, reader, around) for document in documents]
    documents += reader.unreadable
    if not documents and not reader.left_out:
        named = ", ".join(map(str, paths[:3]))
        raise InputFileError(
            named, "neither a certificate nor a memory document", remedy="name a folder that contains certificates"
        )
    return DocumentAudit(
        tuple(sorted(documents, key=lambda each: each.path)), reader.passed_over, (*found.left_out, *reader.left_out)
    )


@dataclass
class _Reader:
    files: list[Path]
    named: set[Path]
    here: Path
    ends: ExitStack
    passed_over: int = 0
    unreadable: list[AuditedDocument] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tops: dict[Path, Path | None] = {}
        self._histories = dict(self._open())

    def subjects(self) -> Iterator[Subject]:
        """Yield every readable document; record the others as skipped."""
        for file in self.files:
            path = shown_path(file, self.here)
            try:
                document = read_document(file.name, read_bytes(file))
            except UnreadableError as error:
                self._note(file, path, str(error))
                continue
            if file in self.named or looks_like_certificate(document):
                yield self._subject(file, path, document)
            else:
                self.passed_over += 1

    def subject(self, file: Path) -> Subject | None:
        """Read one document again; return None if it can no longer be read."""
        try:
            document = read_document(file.name, read_bytes(file))
        except UnreadableError:
            return None
        return self._subject(file, shown_path(file, self.here), document)

    def _note(self, file: Path, path: str, reason: str) -> None:
        kind = MEMORY.get(file.name.lower(), DocumentKind.CERTIFICATE)
        if file in self.named or file.name.lower() in MEMORY or STAMPED.fullmatch(file.name):
            problem = undecided("unreadable", reason)
            self.unreadable.append(AuditedDocument(path, file, kind, "", "", "", "", "", (problem,)))
        else:
            self.left_out.append(f"{path}: {reason}")

    def _subject(self, file: Path, path: str, document: FreehandCertificate) -> Subject:
        root = self._top_of(file.parent)
        history = self._histories.get(root) if root else None
        if root is None or history is None:
            return Subject(path, file, document)
        where = _inside(file, root)
        return Subject(path, file, document, where, history, history.added(where), history.changed(where))

    def _top_of(self, folder: Path) -> Path | None:
        """Return the work tree that contains a folder; git is called only if one may begin there."""
        if folder not in self._tops:
            begins = os.path.lexists(folder / ".git") or folder.parent == folder
            self._tops[folder] = toplevel(folder) if begins else self._top_of(folder.parent)
        return self._tops[folder]

    def _open(self) -> Iterator[tuple[Path, GitHistory]]:
        roots: dict[Path, list[str]] = {}
        for file in self.files:
            root = self._top_of(file.parent)
            if root is not None:
                roots.setdefault(root, []).append(_inside(file, root))
        for root, paths in roots.items():
            try:
                yield root, self.ends.enter_context(GitHistory(root, _few(paths)))
            except OSError:
                continue


def _inside(file: Path, root: Path) -> str:
    real = file.parent.resolve() / file.name
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else ""


def _few(paths: list[str]) -> list[str]:
    """Return the paths to query in git: the files, or their folders if there are many files."""
    if len(paths) <= _MOST_PATHS:
        return paths
    folders = sorted({path.rpartition("/")[0] for path in paths})
    return folders if len(folders) <= _MOST_PATHS and "" not in folders else []


def _standing(subject: Subject) -> StatedConclusion:
    document, history, added = subject.document, subject.history, subject.added
    commit = added.commit if added else ""
    stated = document.statuses
    return StatedConclusion(
        path=subject.path,
        name=document.name,
        root=str(history.root) if history else "",
        component=slugify(document.component) if document.component else "",
        status=read_status(stated[0].text).status if stated else None,
        identifier=document.identifier,
        at=read_moment(document.dated) or moment_in_name(document.name),
        commit=commit,
    )


def _audited(subject: Subject, problems: Iterable[AuditProblem]) -> AuditedDocument:
    document = subject.document
    return AuditedDocument(
        path=subject.path,
        file=subject.file,
        kind=document.kind,
        sha256=sha256(document.data).hexdigest(),
        agent=document.agent,
        status=next((status.text for status in document.statuses), ""),
        component=document.component,
        dated=document.dated,
        problems=_first(problems),
    )


def _compared(audited: AuditedDocument, reader: _Reader, around: AuditContext) -> AuditedDocument:
    """Return a result with the problems found by comparison; most documents are not read again for that."""
    if audited.kind is DocumentKind.CERTIFICATE and not around.standings.has_opposites(audited.component):
        return audited
    subject = reader.subject(audited.file)
    if subject is None:
        return audited
    more = _problems(subject, around, compares=True)
    return replace(audited, problems=_first((*audited.problems, *more)))


def _problems(subject: Subject, around: AuditContext, *, compares: bool) -> Iterable[AuditProblem]:
    for check in load_checks():
        if subject.document.kind in check.KINDS and does_compare(check) is compares:
            yield from check.find(subject, around)


def _first(problems: Iterable[AuditProblem]) -> tuple[AuditProblem, ...]:
    listed = tuple(islice(problems, _MOST_PROBLEMS + 1))
    if len(listed) <= _MOST_PROBLEMS:
        return listed
    return (*listed[:_MOST_PROBLEMS], AuditProblem("more", f"it has more than {_MOST_PROBLEMS} problems"))


def shown_path(path: Path, here: Path) -> str:
    """Return a path as displayed: relative to a folder if it is inside; bytes that are not UTF-8 are escaped."""
    shown = str(path.relative_to(here) if path.is_relative_to(here) else path)
    return os.fsencode(shown).decode("utf-8", "backslashreplace")
