"""Draft a patch: edit files in a private copy of the project, which itself is never changed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk, source_file
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.tools.drafts import (
    DRAFT_PATCH,
    PATCH_FILE,
    Draft,
    keep_draft,
    load_draft,
    original_text,
    text_digest,
    unified_patch,
)
from esper_agents.tools.file_access import writable
from esper_agents.tools.model_output import cut
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject

_MOST_EDITS = 50
_MOST_SHOWN = 12_000
_JSON = {"extra": "forbid", "strict": False}
_PROGRAM = "import sys, pathlib; print(pathlib.Path(sys.argv[1]).read_text().replace(sys.argv[2], sys.argv[3]), end='')"


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One replacement of text in one file.

    Attributes:
        path: The file, relative to the project.
        old: Text that occurs exactly once; empty to create the file.
        new: Text in its place.
    """

    # An object of JSON is not an instance.
    __pydantic_config__ = _JSON

    path: str
    old: str
    new: str


def _rerun(arguments: JsonObject) -> str:
    edits = (each for each in arguments["edits"] if each.get("old"))
    words = (("python", "-c", _PROGRAM, str(edit["path"]), str(edit["old"]), str(edit["new"])) for edit in edits)
    return " && ".join(" ".join(map(quote, word)) for word in words) or "true"


@tool(DRAFT_PATCH, risk=Risk.LOW, repeatable=True, rerun=_rerun)
async def draft_patch(context: ToolContext, edits: list[FileEdit], base: str = "") -> ToolResult:
    """Draft a patch by edits in a private copy; the project's files are never changed.

    Test it with check-draft, and name the evidence of this call as the `patch` of the finding that it fixes: the
    certificate shows the patch, and the user decides whether to apply it.

    Args:
        context: The project.
        edits: Replacements in order: `path`, `old` text that occurs exactly once, and `new` text; an empty `old`
            creates a file.
        base: Evidence of an earlier draft to continue, such as e9.
    """
    return await asyncio.to_thread(_drafted, context, edits, base)


def _drafted(context: ToolContext, edits: Sequence[FileEdit], base: str) -> ToolResult:
    if not 1 <= len(edits) <= _MOST_EDITS:
        raise UsageError(f"{len(edits)} edits", remedy=f"give 1 to {_MOST_EDITS} edits; continue with `base`")
    before = load_draft(context, base) if base else Draft({}, {})
    texts = dict(before.texts)
    known: dict[str, str | None] = {path: original_text(context, path) for path in before.texts}
    for number, each in enumerate(edits, 1):
        path = writable(context, each.path).relative_to(context.root.resolve()).as_posix()
        if path not in known:
            known[path] = original_text(context, path)
        texts[path] = _edited(texts.get(path, known[path]), each, f"edit {number} of {path!r}")
    changed = {path: text for path, text in texts.items() if text != known[path]}
    if not changed:
        raise EvidenceError("the edits change nothing", remedy="give a `new` text that differs from the `old` one")
    patch = "".join(unified_patch(path, known[path], changed[path]) for path in sorted(changed))
    draft = Draft(changed, {path: text_digest(known[path]) for path in changed})
    kept = keep_draft(context, draft, patch)
    added, removed = (sum(_is_line(line, mark) for line in patch.splitlines()) for mark in "+-")
    named = next(each for each in kept if each.name == PATCH_FILE)
    output = {"files": sorted(changed), "patch": cut(patch, _MOST_SHOWN, (named,)), "sha256": named.sha256}
    examined = tuple(source_file(path, text.encode()) for path in sorted(changed) if (text := known[path]) is not None)
    summary = f"patch of {number_of(len(changed), 'file')}: {number_of(added, 'line')} added, {removed} removed"
    return ToolResult(f"{summary}; not applied", output, examined=examined, artifacts=kept)


def _is_line(line: str, mark: str) -> bool:
    return line.startswith(mark) and not line.startswith(mark * 3)


def _edited(text: str | None, edit: FileEdit, what: str) -> str:
    """Return the text of a file after one edit.

    Raises:
        EvidenceError: The text to replace does not occur exactly once.
    """
    if text is None or not edit.old:
        if text is not None:
            raise EvidenceError(f"{what} creates a file that exists", remedy="give the `old` text to replace")
        if edit.old:
            raise EvidenceError(f"{what}: there is no such file", remedy="give an empty `old` text to create it")
        return edit.new
    found = text.count(edit.old)
    if found != 1:
        remedy = "copy the text from the file exactly" if not found else "add lines around it to `old`"
        raise EvidenceError(f"{what}: the old text occurs {found} times", remedy=remedy)
    return text.replace(edit.old, edit.new)
