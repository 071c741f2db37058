"""Drafted changes of a project: new contents of files, stored by digest, and their unified diff."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.errors import EvidenceError
from esper_agents.storage.artifacts import Artifacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esper_agents.domain.evidence import Artifact
    from esper_agents.tools.tool import ToolContext

DRAFT_PATCH = "draft-patch"
PATCH_FILE, _CONTENT_FILE = "change.patch", "draft.json"
_LARGEST_BYTES = 8_000_000


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafted change of a project; its files are not changed.

    Attributes:
        texts: New content of each changed file, by path.
        originals: Digests of the contents that it changes; empty for a new file.
    """

    texts: Mapping[str, str]
    originals: Mapping[str, str]

    @property
    def overlay(self) -> dict[str, bytes]:
        """New contents as bytes."""
        return {path: text.encode("utf-8", "surrogateescape") for path, text in self.texts.items()}


def original_text(context: ToolContext, path: str) -> str | None:
    """Return the text of a project file that a draft changes; None if there is no such file.

    Raises:
        EvidenceError: Agents may not read it, or it is not UTF-8.
    """
    if not context.within(path).exists():
        return None
    try:
        return context.read(path, largest=_LARGEST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{path!r} is not UTF-8", remedy="change it yourself") from error


def text_digest(text: str | None) -> str:
    """Return the digest of a file's content; empty for a file that does not exist."""
    return "" if text is None else sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def unified_patch(path: str, old: str | None, new: str) -> str:
    """Return the difference of one file as `git apply` takes it."""
    names = ("/dev/null" if old is None else f"a/{path}", f"b/{path}")
    before, after = (list(io.StringIO(each or "", newline="\n")) for each in (old, new))
    lines = unified_diff(before, after, *names)
    marked = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(marked)


def keep_draft(context: ToolContext, draft: Draft, patch: str) -> tuple[Artifact, ...]:
    """Store a draft and its difference by their digests.

    Raises:
        EvidenceError: There is no artifact store.
    """
    if context.home is None:
        raise EvidenceError("no files are stored here", remedy="call it within a session of the project")
    store = Artifacts(context.home / "artifacts")
    content = json.dumps({"texts": dict(draft.texts), "originals": dict(draft.originals)}, sort_keys=True)
    return (
        store.keep_text(patch.encode("utf-8", "surrogateescape"), PATCH_FILE, "text/x-diff"),
        store.keep_text(content.encode("utf-8", "backslashreplace"), _CONTENT_FILE, "application/json"),
    )


def load_draft(context: ToolContext, identifier: str) -> Draft:
    """Return the draft that a call of `draft-patch` recorded, if its files are still those of the project.

    Args:
        context: The project and its session.
        identifier: Evidence of the call.

    Raises:
        EvidenceError: There is no such draft, or a file that it changes has changed since.
    """
    made = context.evidence(identifier) if context.evidence is not None else None
    kept = (
        [artifact for artifact in made.artifacts if artifact.name == _CONTENT_FILE]
        if made and made.tool == DRAFT_PATCH
        else []
    )
    if not kept or context.home is None:
        problem = f"{identifier[:60]!r} is not a drafted patch of this session"
        raise EvidenceError(problem, remedy="call draft-patch, and name the evidence of that call")
    given = json.loads(Artifacts(context.home / "artifacts").path(kept[0].sha256).read_bytes())
    draft = Draft(given["texts"], given["originals"])
    for path, digest in draft.originals.items():
        if text_digest(original_text(context, path)) != digest:
            raise EvidenceError(f"{path!r} changed since the patch was drafted", remedy="draft the patch again")
    return draft
