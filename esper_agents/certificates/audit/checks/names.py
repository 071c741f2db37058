"""Check the file name and the folder of a certificate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.date_spans import moment_in_name
from esper_agents.certificates.audit.document import DocumentKind
from esper_agents.certificates.audit.problem import AuditProblem, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.audit.subject import AuditContext, Subject

MEANING = {
    "file-name": "the file is not called {descriptor}_{component}_{YYYYMMDD_HHMMSS}.md",
    "agent-folder": "it lies in the folder of another agent than the one that it names",
}
KINDS = frozenset((DocumentKind.CERTIFICATE,))
# Two certificates of the same second are distinguished by the end of an ID.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*_[\w.-]+_\d{8}_\d{6}(?:_[0-9a-f]{8,32})?\.md", re.ASCII)
_FOLDER = re.compile(r"(?:^|/)docs/ai/agents/([^/]+)/certificates/[^/]+$")


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:  # noqa: ARG001 - every check is given both
    """Yield problems of the file name and folder."""
    name = subject.document.name
    if _NAME.fullmatch(name) is None:
        yield AuditProblem("file-name", f"{quoted(name)} is not of the form descriptor_component_YYYYMMDD_HHMMSS.md")
    elif moment_in_name(name) is None:
        yield AuditProblem("file-name", f"{quoted(name)} names a time that does not exist")
    folder = _FOLDER.search(subject.file.as_posix())
    agent = subject.document.agent
    if folder and agent and _plain(folder.group(1)) != _plain(agent):
        yield AuditProblem(
            "agent-folder", f"it lies in the folder of {quoted(folder.group(1))} and names {quoted(agent)}"
        )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
