"""Read part of an artifact by its digest."""

from __future__ import annotations

import json
import os
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.domain.evidence import Risk
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools.model_output import OUTPUT_FILE
from esper_agents.tools.tool import THIS_SESSION, ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

_LARGEST_BYTES = 64_000_000
_MOST_CHARACTERS = 12_000


def _rerun(arguments: JsonObject) -> str:
    start = int(arguments.get("start", 0))
    folder = '"$ESPER_HOME"/projects/*/artifacts'
    if not arguments.get("sha256"):
        return f"esper sessions show {THIS_SESSION}"
    return f"cat {folder}/*/{quote(str(arguments['sha256']))} | tail -c +{start + 1} | head -c {_MOST_CHARACTERS}"


@tool("read-artifact", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun)
async def read_artifact(
    context: ToolContext, sha256: str = "", start: int = 0, find: str = "", *, evidence: str = "", name: str = ""
) -> ToolResult:
    """Read up to 12,000 characters of the result of a call, or of a stored file, such as the rest of a long output.

    Args:
        context: The artifact store.
        sha256: Digest of the file, as named in evidence.
        start: First character to read, from 0.
        find: Text to start at instead: its first occurrence from `start` on.
        evidence: The call whose result is read, such as e7, instead of a digest.
        name: Name of a file of that call; if omitted, its result.
    """
    if bool(sha256) is bool(evidence):
        raise UsageError("read-artifact takes either a digest or evidence", remedy="give one of them")
    text, sha256 = _stored(context, sha256) if sha256 else _of_call(context, evidence, name)
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


def _of_call(context: ToolContext, evidence: str, name: str) -> tuple[str, str]:
    """Return the text and the digest of a file of a call, or of its result.

    Raises:
        EvidenceError: The session has no such call, or the call no such file.
    """
    made = context.evidence(evidence) if context.evidence is not None else None
    if made is None:
        problem = f"{evidence[:60]!r} is not evidence of this session"
        raise EvidenceError(problem, remedy="name a call as its result does, such as e7")
    wanted = [artifact for artifact in made.artifacts if artifact.name == (name or OUTPUT_FILE)]
    if wanted:
        return _stored(context, wanted[-1].sha256)
    if name:
        names = ", ".join(artifact.name for artifact in made.artifacts) or "none"
        raise EvidenceError(f"{made.tool} produced no file {name[:80]!r}", remedy=f"it produced {names}")
    return json.dumps(made.output, ensure_ascii=False, indent=1), made.output_sha256


def _stored(context: ToolContext, sha256: str) -> tuple[str, str]:
    """Return the text of a stored file without secrets, and its digest.

    Raises:
        EvidenceError: No files are stored here, or it is too large or not text.
        NotFoundError: There is no such file.
    """
    if context.home is None:
        raise EvidenceError("no files are stored here", remedy="call its tool again, for less output")
    file = Artifacts(context.home / "artifacts").path(sha256)
    if file.stat().st_size > _LARGEST_BYTES:
        raise EvidenceError(f"artifact {sha256[:12]} has over {_LARGEST_BYTES} bytes", remedy="use its summary")
    # The whole file is read, so that a secret is never split across two pages.
    return redacted(_text(file.read_bytes(), sha256), known=secrets_of(os.environ)).value, file.name


def _text(data: bytes, sha256: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvidenceError(f"artifact {sha256[:12]} is not text", remedy="use its summary") from error
