"""Certificates as models write them, in a repository whose commits are made at chosen times."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from esper_agents.certificates.audit.auditing import DocumentAudit, audit
from esper_agents.certificates.audit.subject import AuditContext

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WRITTEN = "2026-02-10 09:30:00 UTC"
COMMITTED = "2026-02-10T09:41:00+00:00"
STAMP = "20260210_093000"
FOLDER = "docs/ai/agents/torch-specialist/certificates"
NAME = f"loop_review_train_{STAMP}.md"
TRAIN = "".join(f"line_{number} = {number}\n" for number in range(1, 21))
KNOWN = frozenset(("torch-specialist", "pytorch-expert"))


def certificate(**said: str) -> str:
    """Return a certificate in which everything holds, but for what is said otherwise; an empty part is left out."""
    text = {
        "title": "# LOOP REVIEW CERTIFICATE",
        "component": "**Component**: training loop",
        "agent": "**Agent**: torch-specialist",
        "date": f"**Date**: {WRITTEN}",
        "id": "**Certificate ID**: LOOP-0001",
        "scope": "## REVIEW SCOPE\n- `src/train.py` (20 lines)\n- Ran the tests",
        "findings": "## FINDINGS\n- The gradients are cleared at `src/train.py:12`",
        "decision": "## DECISION/OUTCOME\n**Status**: APPROVED\n**Rationale**: the loop clears its gradients",
        "evidence": "## EVIDENCE\n- `src/train.py:12-14` clears them\n- Tests: 3 passed",
        "signature": f"## SIGNATURE\nAgent: torch-specialist\nTimestamp: {WRITTEN}",
    } | said
    head = [text[each] for each in ("component", "agent", "date", "id") if text[each]]
    parts = [text[each] for each in ("scope", "findings", "decision", "evidence", "signature") if text[each]]
    return "\n\n".join((text["title"], "\n".join(head), *parts)) + "\n"


@dataclass
class Archive:
    """A repository with certificates in it.

    Attributes:
        root: Its folder.
        now: The time of the audit.
        agents: The agents that are known.
    """

    root: Path
    now: datetime = NOW
    agents: frozenset[str] = field(default=KNOWN)

    def write(self, text: str | bytes, name: str = NAME, folder: str = FOLDER) -> Path:
        """Write a document."""
        path = self.root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def commit(self, at: str = COMMITTED) -> str:
        """Commit all there is, at a time, and return the commit."""
        self.git("add", "-A")
        times = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        self.git("commit", "-q", "--allow-empty", "-m", "more", **times)
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str, **environment: str) -> str:
        """Run git and return what it prints."""
        command = ["git", "-C", str(self.root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
        return done.stdout.strip()

    def audit(self, *paths: Path, days: int = 7) -> DocumentAudit:
        """Audit paths, the whole repository where none is named."""
        around = AuditContext(lambda _: self.agents, self.now, before=timedelta(days=days))
        return audit(paths or (self.root,), around, self.root)

    def codes(self, text: str | bytes, name: str = NAME, at: str = COMMITTED) -> list[str]:
        """Write and commit one certificate, and return the codes of what is wrong with it."""
        path = self.write(text, name)
        self.commit(at)
        (document,) = self.audit(path).documents
        return [problem.code for problem in document.problems]

    def details(self, *paths: Path) -> dict[str, str]:
        """Return what an audit says, by code; the last of each."""
        return {
            problem.code: problem.detail for document in self.audit(*paths).documents for problem in document.problems
        }
