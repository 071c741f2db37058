"""Read part of an artifact by its digest."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.domain.evidence import Risk
from esper_agents.errors import EvidenceError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

_LARGEST_BYTES = 64_000_000
_MOST_CHARACTERS = 12_000


def _rerun(arguments: JsonObject) -> str:
    start = int(arguments.get("start", 0))
    folder = '"$ESPER_HOME"/projects/*/artifacts'
    return f"cat {folder}/*/{quote(str(arguments['sha256']))} | tail -c +{start + 1} | head -c {_MOST_CHARACTERS}"


@tool("read-artifact", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun)
async def read_artifact(context: ToolContext, sha256: str, start: int = 0, find: str = "") -> ToolResult:
    """Read up to 12,000 characters of a stored file, such as the rest of a long output.

    Args:
        context: The artifact store.
        sha256: Digest of the file, as named in evidence.
        start: First character to read, from 0.
        find: Text to start at instead: its first occurrence from `start` on.
    """
    if context.home is None:
        raise EvidenceError("no files are stored here", remedy="call its tool again, for less output")
    file = Artifacts(context.home / "artifacts").path(sha256)
    if file.stat().st_size > _LARGEST_BYTES:
        raise EvidenceError(f"artifact {sha256[:12]} has over {_LARGEST_BYTES} bytes", remedy="use its summary")
    # The whole file is read, so that a secret is never split across two pages.
    text = redacted(_text(file.read_bytes(), sha256), known=secrets_of(os.environ)).value
    first = max(0, start)
    if find:
        first = text.find(find, first)
        if first < 0:
            raise EvidenceError(f"{find[:80]!r} does not occur from {start} on", remedy="start at 0")
    part = text[first : first + _MOST_CHARACTERS]
    last = first + len(part)
    output = {"sha256": sha256, "start": first, "end": last, "characters": len(text), "text": part}
    more = f"; continue with start={last}" if last < len(text) else ""
    return ToolResult(f"characters {first}-{last} of {len(text)} of {sha256[:12]}{more}", output)


def _text(data: bytes, sha256: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvidenceError(f"artifact {sha256[:12]} is not text", remedy="use its summary") from error
