"""Check that the evidence names a file, command, commit, digest or address."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.document import DocumentKind, DocumentSection
from esper_agents.certificates.audit.problem import AuditProblem
from esper_agents.certificates.audit.status import read_status
from esper_agents.domain.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.audit.document import DocumentLine, FreehandCertificate
    from esper_agents.certificates.audit.subject import AuditContext, Subject

MEANING = {"evidence-cites-nothing": "its evidence names no file, command, commit, digest or address"}
KINDS = frozenset((DocumentKind.CERTIFICATE,))
_PROGRAMS = (
    *(
        "python3?",
        "pytest",
        "esper",
        "git",
        "make",
        "uv",
        "pip",
        "nox",
        "tox",
        "ruff",
        "mypy",
        "torchrun",
        "nsys",
        "ncu",
    ),
    *("npm", "npx", "node", "cargo", "go", "bash", "sh", "docker", "curl"),
)
_COMMANDS = "|".join(_PROGRAMS)
_COMMAND = re.compile(rf"(?:`\s?|^\s*|\$ )(?:{_COMMANDS}) [\w./-]")
_TOLD = re.compile(rf"(?:`\s?|\$ )(?:{_COMMANDS}) [\w./-]")
_ADDRESS = re.compile(r"https?://\w")
_DIGEST = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,128}\b|\b(?:ev|crt)_[0-9a-f]{32}\b")


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:  # noqa: ARG001 - every check is given both
    """Yield a problem if nothing in the EVIDENCE section can be looked up or run again."""
    document = subject.document
    lines = [line for line in document.lines if line.part is DocumentSection.EVIDENCE]
    body = [line for line in lines[1:] if line.text.strip()]
    if not body or any(citation.part is DocumentSection.EVIDENCE for citation in document.citations):
        return
    if _decides_nothing(document) and all(line.text.strip(" \t-*+._").lower() == "none" for line in body):
        return
    # A citation is listed once per document, and may have occurred first in another section.
    named = {citation.path for citation in document.citations}
    commits = {line for _, line in document.commits}
    if not any(_rests_on_something(line, named) or line.number in commits for line in body):
        yield AuditProblem(
            "evidence-cites-nothing", f"none of its {len(body)} lines can be looked up or run", lines[0].number
        )


def _decides_nothing(document: FreehandCertificate) -> bool:
    """Return whether a certificate leaves its question open, which needs no evidence."""
    return {read_status(status.text).status for status in document.statuses} == {Status.NEEDS_FURTHER_REVIEW}


def _rests_on_something(line: DocumentLine, named: set[str]) -> bool:
    text = line.text[:4000]
    command = _COMMAND if line.is_code else _TOLD
    return any(pattern.search(text) for pattern in (command, _ADDRESS, _DIGEST)) or any(each in text for each in named)
