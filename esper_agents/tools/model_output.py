"""Bounded tool output for a model: an omitted middle is replaced by its size and location."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.json_conversion import to_json
from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.errors import StorageError
from esper_agents.memory.quoting import inert
from esper_agents.storage.artifacts import Artifacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.evidence import Artifact, Evidence
    from esper_agents.tools.tool import ToolContext, ToolResult

# Characters of one result.
MOST_SHOWN = 24_000
# Above this the whole of an output is kept as a file: what else stands in a result wants room, too.
_KEPT_OVER = 16_000
_HEAD = 2 / 3
_OUTPUT, _CLAIMS = "output.json", "claims.json"


def model_view(evidence: Evidence, limit: int = MOST_SHOWN) -> str:
    """Return what a model is shown of a call, as one line of JSON in which nothing looks like markup.

    Args:
        evidence: The record of the call.
        limit: How many characters at most, the line that says what is left out aside.
    """
    told: dict[str, Any] = {
        "evidence": evidence.id,
        "tool": evidence.tool,
        "outcome": str(evidence.outcome),
        "summary": evidence.summary,
        "output": evidence.output,
    }
    if evidence.artifacts:
        told["artifacts"] = [{"name": each.name, "sha256": each.sha256} for each in evidence.artifacts]
    return cut(inert(told), limit, whole_of(evidence))


def whole_of(evidence: Evidence) -> tuple[Artifact, ...]:
    """Return where all of a result is kept that was too long to be shown; nothing where it was not."""
    return tuple(each for each in evidence.artifacts if each.name in {_OUTPUT, _CLAIMS})


def cut(text: str, limit: int, whole: Sequence[Artifact] = ()) -> str:
    """Return a text with its middle left out where it is longer than the limit.

    Args:
        text: Any text.
        limit: How many characters stay.
        whole: Where all of it is kept, if it is.
    """
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    tail = limit - head
    named = ", ".join(f"{each.name} {each.sha256}" for each in whole)
    where = f"; read-artifact has all of it: {named}" if named else ""
    left = f"\n[... {len(text) - limit} of {len(text)} characters are left out here{where}]\n"
    return f"{text[:head]}{left}{text[len(text) - tail :]}"


def with_whole_kept(context: ToolContext, result: ToolResult) -> ToolResult:
    """Return a result; where it is too long to be shown, all of it is kept as files beside it.

    The file of the output has the bytes that the digest on record is of. Nothing is kept where there is no place.
    """
    if context.home is None:
        return result
    parts = {_OUTPUT: result.output, _CLAIMS: [asdict(each) for each in result.claims]}
    try:
        if sum(len(inert(each)) for each in parts.values()) <= _KEPT_OVER:
            return result
        clean = redacted(parts, known=secrets_of(os.environ)).value
        kept = [_kept(context, _bytes(each), name, "application/json") for name, each in clean.items() if each]
    except (TypeError, ValueError):
        # No JSON: whoever records the call says so.
        return result
    return replace(result, artifacts=(*result.artifacts, *(each for some in kept for each in some)))


def kept_text(context: ToolContext, text: str, name: str) -> tuple[Artifact, ...]:
    """Keep a text without its secrets, and return the one artifact; none where there is no place for it."""
    clean = redacted(text, known=secrets_of(os.environ)).value
    return _kept(context, clean.encode("utf-8", "backslashreplace"), name, "text/plain")


def _bytes(output: object) -> bytes:
    import rfc8785

    return rfc8785.dumps(to_json(output))


def _kept(context: ToolContext, data: bytes, name: str, media_type: str) -> tuple[Artifact, ...]:
    if context.home is None:
        return ()
    try:
        return (Artifacts(context.home / "artifacts").keep_text(data, name, media_type),)
    except StorageError:
        # The call was made; that there is no room for a copy does not undo it.
        return ()
