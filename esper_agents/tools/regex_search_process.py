"""Match a regular expression against lines of files; run as a process by `search_files`."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.redaction import without_keys
from esper_agents.domain.evidence import source_file
from esper_agents.domain.text_lines import text_lines
from esper_agents.tools.secret_stores import decoded, secret_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_HITS = 200
_LARGEST_BYTES = 2_000_000
_LONGEST_LINE = 300
# A longer line was not written by hand.
_LONGEST_TRIED = 10_000
_BINARY = b"\0"


def search(root: Path, files: Sequence[str], expression: re.Pattern[str], *, around: int = 0) -> dict[str, Any]:
    """Return the matching lines, and the files that contain them as they were read.

    Args:
        root: The project's folder.
        files: Paths relative to it, in order.
        expression: Regular expression to match against each line.
        around: Number of lines before and after each match that are returned as well.
    """
    hits: list[dict[str, Any]] = []
    examined = []
    withheld: dict[str, str] = {}
    for number, path in enumerate(files, 1):
        data = _read(root / path)
        if data is not None and (why := secret_store(data, path)):
            withheld[path] = f"it holds {why}"
            continue
        found = list(_fitting(data, path, expression, around)) if data is not None else []
        if data is not None and found:
            hits += found
            examined.append(asdict(source_file(path, data)))
        if len(hits) > _MOST_HITS:
            return {
                "hits": hits[:_MOST_HITS],
                "examined": examined,
                "searched": number,
                "is_cut": True,
                "withheld": withheld,
            }
    return {"hits": hits, "examined": examined, "searched": len(files), "is_cut": False, "withheld": withheld}


def _fitting(data: bytes, path: str, expression: re.Pattern[str], around: int) -> Iterator[dict[str, Any]]:
    lines = text_lines(without_keys(decoded(data)))
    for number, line in enumerate(lines, 1):
        if len(line) > _LONGEST_TRIED or not expression.search(line):
            continue
        hit = {"path": path, "line": number, "text": line.strip()[:_LONGEST_LINE]}
        if around:
            first, last = max(1, number - around), min(len(lines), number + around)
            shown = [each[:_LONGEST_LINE] for each in lines[first - 1 : last]]
            hit |= {"first_line": first, "last_line": last, "lines": shown}
        yield hit


def _read(file: Path) -> bytes | None:
    """Return a file's content; None if it is not text, too large, a link or a pipe."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(handle, "rb") as opened:  # noqa: PTH123 - a descriptor
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_size > _LARGEST_BYTES:
            return None
        data = opened.read(_LARGEST_BYTES + 1)
    is_text = _BINARY not in data[:8_192] or "\0" not in decoded(data[:8_192])
    return data if is_text and len(data) <= _LARGEST_BYTES else None


def main() -> None:
    """Read the request as JSON, and write the result as JSON."""
    asked = json.load(sys.stdin)
    flags = re.IGNORECASE if asked["ignore_case"] else re.NOFLAG
    try:
        expression = re.compile(asked["pattern"], flags)
    except (re.error, RecursionError, OverflowError) as error:
        json.dump({"problem": str(error)}, sys.stdout)
        return
    json.dump(search(Path(asked["root"]), asked["files"], expression, around=asked["around"]), sys.stdout)


if __name__ == "__main__":
    main()
