"""Check that cited files, lines, commits and artifacts exist at the commit concerned."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.cited_paths import commits_for, find_cited, is_outside
from esper_agents.certificates.audit.document import DocumentKind, DocumentSection
from esper_agents.certificates.audit.files import UnreadableError, read_bytes, read_records
from esper_agents.certificates.audit.problem import AuditProblem, quoted, undecided
from esper_agents.certificates.statement import digest_of, parse
from esper_agents.certificates.views.escaping import MarkdownInk
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from esper_agents.certificates.audit.document import Citation, DocumentLine, FreehandCertificate
    from esper_agents.certificates.audit.subject import AuditContext, Subject
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Artifact
    from esper_agents.git.history import GitHistory

MEANING = {
    "artifact-unknown": "it names an artifact that the evidence of its record does not have",
    "citation-absent": "a file that it cites was not there",
    "citation-line": "a file that it cites has no such line",
    "citation-outside": "a file that it cites lies in no repository, and cannot be looked at",
    "commit-unknown": "a commit that it names is not in the repository",
    "citations-undecided": "git does not know which files and lines were there",
}
KINDS = frozenset(DocumentKind)
_LISTED = frozenset((DocumentSection.SCOPE, DocumentSection.EVIDENCE))
_MOST_BYTES = 64 * 2**20
_MOST_RECORDS = 2000
_NOTE = re.compile(r"<!-- esper:note (\{.*\}) -->")


@dataclass(frozen=True, slots=True)
class _Looked:
    """Result of looking up a cited file.

    Attributes:
        is_there: Whether at least one matching file exists.
        most_lines: Line count of the longest match; None if the lines cannot be counted.
    """

    is_there: bool
    most_lines: int | None


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:  # noqa: ARG001 - every check is given both
    """Yield citations of missing files, lines, commits and artifacts."""
    document = subject.document
    record = _record(subject)
    artifacts = (
        None if record is None else [artifact for evidence in record.evidence for artifact in evidence.artifacts]
    )
    examined = _lines_by_path(() if record is None else (record,))
    named = [] if artifacts is None else [line for line in document.lines if _is_artifact(line)]
    for line in named:
        if not any(_names(line, artifact) for artifact in artifacts or ()):
            yield AuditProblem("artifact-unknown", f"{quoted(line.text)} is not in its record", line.number)
    # A project file may have the same name as an artifact; a citation with a line number refers to the file.
    files = {line.number for line in named}, {artifact.name for artifact in artifacts or ()}
    claims = [
        citation
        for citation in document.citations
        if _is_claim(citation, document.kind) and not _is_settled(citation, *files)
    ]
    claims = [each for each in claims if not _was_examined(each, examined)]
    if document.kind is not DocumentKind.CERTIFICATE and claims:
        beside = _lines_by_path(_records_beside(subject))
        claims = [each for each in claims if not _was_examined(each, beside)]
    history = subject.history
    if history is None:
        if claims:
            number = number_of(len(claims), "citation")
            yield undecided("citations-undecided", f"{number}, and no git repository that can be read")
        return
    yield from _unknown_commits(subject, history)
    commits = commits_for(subject)
    for claim in claims:
        yield from _looked_up(subject, history, commits, claim)


def _record(subject: Subject) -> Certificate | None:
    """Return the record of a certificate; None if the record named by its hash is not in the same folder.

    The signature of the record is not verified here; `esper certificates verify` does that.
    """
    stated = {each.text for each in subject.document.said("certificate hash")}
    for data in read_records(subject.file) if stated else ():
        if stated == {digest_of(data)}:
            try:
                return parse(data)
            except IntegrityError:
                return None
    return None


def _records_beside(subject: Subject) -> Iterator[Certificate]:
    """Yield the records of the certificates next to a memory document, identified by the hash in their views."""
    for view in islice(sorted((subject.file.parent / "certificates").glob("*.md")), _MOST_RECORDS):
        for data in read_records(view):
            with suppress(IntegrityError, UnreadableError):
                if digest_of(data).encode() in read_bytes(view):
                    yield parse(data)
                    break


def _lines_by_path(records: Iterable[Certificate]) -> dict[str, int]:
    """Return the line count of each file examined as evidence; the largest count if the file changed."""
    lines: dict[str, int] = {}
    for record in records:
        for file in (*record.examined, *(each for evidence in record.evidence for each in evidence.examined)):
            lines[file.path] = max(file.lines, lines.get(file.path, 0))
    return lines


def _was_examined(citation: Citation, lines: dict[str, int]) -> bool:
    """Return whether a cited file was examined and has the cited lines."""
    count = lines.get(citation.path.removeprefix("./"))
    if count is None or citation.first is None or citation.last is None:
        return count is not None
    return 1 <= citation.first <= citation.last <= count


def _is_artifact(line: DocumentLine) -> bool:
    return (
        line.part is DocumentSection.EVIDENCE
        and not line.is_code
        and line.text.lstrip(" \t-*+").startswith("Artifact:")
    )


def _names(line: DocumentLine, artifact: Artifact) -> bool:
    """Return whether a line names an artifact with its digest, as views do."""
    return MarkdownInk().code(artifact.name).text in line.text and f"`{artifact.sha256}`" in line.text


def _is_settled(citation: Citation, lines: set[int], names: set[str]) -> bool:
    """Return whether a citation names an artifact of the evidence, or is in the list of artifacts."""
    return citation.line in lines or (citation.first is None and citation.path in names)


def _is_claim(citation: Citation, kind: DocumentKind) -> bool:
    """Return whether a citation claims that a file exists: with a line number anywhere, else in a list of files only.

    A path in running text may be a file that is yet to be created.
    """
    if citation.first is not None:
        return True
    if citation.is_of_what_is_not or kind is DocumentKind.NEXT_ACTIONS:
        return False
    return citation.part in _LISTED or (kind is not DocumentKind.CERTIFICATE and "/" in citation.path)


def _unknown_commits(subject: Subject, history: GitHistory) -> Iterator[AuditProblem]:
    for name, line in subject.document.commits[:20]:
        if not history.commit(name):
            detail = f"commit {name} is not in this repository"
            is_whole = not history.is_partial and not history.is_shallow
            yield (
                AuditProblem("commit-unknown", detail, line) if is_whole else undecided("commit-unknown", detail, line)
            )


def _looked_up(
    subject: Subject, history: GitHistory, commits: Iterable[str], claim: Citation
) -> Iterator[AuditProblem]:
    first, last = claim.first, claim.last
    is_memory = subject.document.kind is not DocumentKind.CERTIFICATE
    looked = [_look(history, commit, claim, subject.where) for commit in commits]
    if subject.added is None:
        looked.append(_in_work_tree(history.root, claim.path))
    there = [each for each in looked if each.is_there]
    shown = quoted(claim.path)
    if not there:
        came = subject.changed if is_memory else subject.added
        if is_outside(claim.path):
            yield undecided("citation-outside", f"{shown} lies in no repository", claim.line)
        elif history.is_partial or (came is not None and came.is_boundary):
            yield undecided("citation-absent", f"{shown} is not in what is here of the history", claim.line)
        elif is_memory and claim.path in _note_sources(subject.document):
            detail = f"{shown} is a source of a note, and no record beside the document has it"
            yield undecided("citation-absent", detail, claim.line)
        else:
            yield AuditProblem(
                "citation-absent", f"{shown} was not there{_when(came.commit if came else '')}", claim.line
            )
    elif first is not None and last is not None:
        counts = [each.most_lines for each in there if each.most_lines is not None]
        if last < first:
            yield AuditProblem("citation-line", f"lines {first} to {last} of {shown} end before they begin", claim.line)
        elif not counts:
            yield undecided("citation-line", f"the lines of {shown} cannot be counted", claim.line)
        # Editors count the empty line after the last line feed.
        elif first < 1 or last > max(counts) + (last > first):
            detail = f"{shown} had {number_of(max(counts), 'line')}, and {max(first, last)} is cited"
            yield AuditProblem("citation-line", detail, claim.line)


def _note_sources(document: FreehandCertificate) -> set[str]:
    """Return the source files of the program's notes in a memory document; this text can be forged."""
    found: set[str] = set()
    for line in document.lines:
        if (marked := _NOTE.fullmatch(line.text.strip())) is None:
            continue
        with suppress(ValueError, TypeError, KeyError, IndexError, RecursionError):
            found |= {str(path) for path, _ in json.loads(marked[1])["sources"]}
    return found


def _when(commit: str) -> str:
    return f" at commit {commit[:12]}, nor before it" if commit else ""


def _look(history: GitHistory, commit: str, claim: Citation, where: str) -> _Looked:
    found = find_cited(history, commit, claim.path, where.rpartition("/")[0])
    if not found or claim.first is None:
        return _Looked(bool(found), None)
    # A bare name may refer to any of several files: it is wrong only if it matches none of them.
    counts = [history.lines(history.blob(commit, each)) for each in found[:50]]
    return _Looked(is_there=True, most_lines=max((count for count in counts if count is not None), default=None))


def _in_work_tree(root: Path, name: str) -> _Looked:
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root) or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return _Looked(is_there=False, most_lines=None)
        data = path.read_bytes()
    except (OSError, ValueError, RuntimeError):
        return _Looked(is_there=False, most_lines=None)
    return _Looked(is_there=True, most_lines=data.count(b"\n") + (not data.endswith(b"\n")))
