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

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import Artifact, Evidence
    from esper_agents.tools.tool import ToolContext, ToolResult

# Maximum characters of one result.
MOST_SHOWN = 24_000
# Above this size the whole output is stored as a file: other fields of the result need space, too.
_KEPT_OVER = 16_000
_HEAD = 2 / 3
OUTPUT_FILE, _CLAIMS_FILE = "output.json", "claims.json"


def model_view(evidence: Evidence, limit: int = MOST_SHOWN) -> str:
    """Return a tool call's output for a model, as one line of JSON without anything that looks like markup.

    Args:
        evidence: Evidence of the call.
        limit: Maximum number of characters, not counting the line that describes an omission.
    """
    told: dict[str, Any] = {
        "evidence": evidence.id,
        "tool": evidence.tool,
        "outcome": str(evidence.outcome),
        "summary": evidence.summary,
        "output": _numbered(evidence.output),
    }
    if evidence.artifacts:
        told["artifacts"] = [{"name": artifact.name, "sha256": artifact.sha256} for artifact in evidence.artifacts]
    return cut(inert(told), limit, whole_of(evidence))


def _numbered(output: JsonObject) -> JsonObject:
    """Return an output of lines of files with the number of each line in front of it."""
    match output:
        case {"first_line": int(first), "lines": [*lines]} if all(isinstance(each, str) for each in lines):
            return {**output, "lines": [f"{number}: {line}" for number, line in enumerate(lines, first)]}
        case {"parts": [*parts]} | {"hits": [*parts]} if all(isinstance(part, dict) for part in parts):
            name = "parts" if "parts" in output else "hits"
            return {**output, name: [_numbered(part) for part in parts]}
        case _:
            return output


def whole_of(evidence: Evidence) -> tuple[Artifact, ...]:
    """Return the location of a result that was too long to show; empty if it was shown."""
    return tuple(artifact for artifact in evidence.artifacts if artifact.name in {OUTPUT_FILE, _CLAIMS_FILE})


def cut(text: str, limit: int, whole: Sequence[Artifact] = ()) -> str:
    """Return a text with its middle omitted if it exceeds the limit.

    Args:
        text: Any text.
        limit: Number of characters to keep.
        whole: Location of the whole text, if stored.
    """
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    tail = limit - head
    named = ", ".join(f"{each.name} {each.sha256}" for each in whole)
    where = f"; read-artifact returns all of it: {named}" if named else ""
    left = f"\n[... {len(text) - limit} of {len(text)} characters omitted here{where}]\n"
    return f"{text[:head]}{left}{text[len(text) - tail :]}"


def with_whole_kept(context: ToolContext, result: ToolResult) -> ToolResult:
    """Return a result; if it is too long to show, its whole text is stored as additional files.

    The output file has the bytes of the recorded digest. Nothing is stored without an artifact store.
    """
    if context.home is None:
        return result
    parts = {OUTPUT_FILE: result.output, _CLAIMS_FILE: [asdict(claim) for claim in result.claims]}
    try:
        if sum(len(inert(part)) for part in parts.values()) <= _KEPT_OVER:
            return result
        clean = redacted(parts, known=secrets_of(os.environ)).value
        kept = [_kept(context, _bytes(each), name, "application/json") for name, each in clean.items() if each]
    except (TypeError, ValueError):
        # Not JSON: the caller that records the call reports it.
        return result
    return replace(result, artifacts=(*result.artifacts, *(each for some in kept for each in some)))


def kept_text(context: ToolContext, text: str, name: str) -> tuple[Artifact, ...]:
    """Store a text without its secrets, and return the one artifact; empty without an artifact store."""
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
        # A failed copy must not discard the result of the call.
        return ()
