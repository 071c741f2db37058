"""Shared parts of the writing tools: the SDK's file tools limited to the project, with evidence."""

from __future__ import annotations

import asyncio
import os
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.domain.evidence import source_file
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EvidenceError, StorageError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools.file_access import writable
from esper_agents.tools.model_output import cut
from esper_agents.tools.tool import ToolContext, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anthropic.lib.tools.agent_toolset import AgentToolContext

    from esper_agents.domain.evidence import Artifact

LARGEST_BYTES = 2_000_000
_MOST_SHOWN = 8_000
_MEDIA_TYPE = "text/plain"


async def changed(
    context: ToolContext, path: str, make: Callable[[AgentToolContext], Any], arguments: dict[str, Any]
) -> ToolResult:
    """Change a file of the project with one of the SDK's file tools, and return the result.

    The previous content is stored by its digest, unless it contains secrets. The SDK itself refuses paths outside the
    project; this function refuses secrets, git's own files and the folders that control the rights of agents.

    Args:
        context: The project.
        path: Relative to the project.
        make: The SDK's `beta_write_tool` or `beta_edit_tool`.
        arguments: Its arguments, except the path.

    Raises:
        EvidenceError: The file may not be written, or the change failed.
    """
    from anthropic.lib.tools import ToolError
    from anthropic.lib.tools.agent_toolset import AgentToolContext

    target = writable(context, path)
    before = await asyncio.to_thread(_read, target, path)
    kept = _kept(context, before, target.name)
    project = AgentToolContext(workdir=context.root, max_file_bytes=LARGEST_BYTES)
    try:
        await make(project).call({"file_path": str(target), **arguments})
    except ToolError as error:
        problem = str(error).replace(str(target), path)
        raise EvidenceError(problem, remedy="read the file again, then call the tool with valid arguments") from error
    return _result(context, target, before, kept)


def _result(context: ToolContext, target: Path, before: bytes | None, kept: tuple[Artifact, ...]) -> ToolResult:
    inside, after = target.relative_to(context.root.resolve()).as_posix(), target.read_bytes()
    old, new = (each.decode("utf-8", "replace").splitlines() for each in (before or b"", after))
    difference = list(unified_diff(old, new, f"a/{inside}", f"b/{inside}", lineterm=""))
    added = sum(each.startswith("+") for each in difference[2:])
    removed = sum(each.startswith("-") for each in difference[2:])
    output = {
        "path": inside,
        "is_new": before is None,
        "is_kept": bool(kept),
        "diff": cut("\n".join(difference), _MOST_SHOWN),
    }
    done = "made" if before is None else "changed"
    summary = f"{inside} {done}: {number_of(added, 'line')} added, {removed} removed"
    return ToolResult(summary, output, examined=(source_file(inside, after),), artifacts=kept)


def _read(target: Path, path: str) -> bytes | None:
    if not target.exists():
        return None
    state = target.stat()
    if state.st_size > LARGEST_BYTES or state.st_nlink > 1:
        what = "has another hard link, perhaps outside" if state.st_nlink > 1 else f"has over {LARGEST_BYTES} bytes"
        raise EvidenceError(f"{path!r} {what}", remedy="change it yourself")
    return target.read_bytes()


def _kept(context: ToolContext, data: bytes | None, name: str) -> tuple[Artifact, ...]:
    if data is None or context.home is None:
        return ()
    if redacted(data.decode("utf-8", "replace"), known=secrets_of(os.environ)).count:
        return ()
    try:
        return (Artifacts(context.home / "artifacts").keep_text(data, f"{name}.before", _MEDIA_TYPE),)
    except StorageError as error:
        raise EvidenceError(
            f"cannot store the new content of {name!r}: {error.problem}", remedy=error.remedy
        ) from error
