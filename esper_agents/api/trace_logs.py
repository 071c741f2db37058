"""Error logs that a request names: the part with the stack trace becomes a part of the request."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUFFIXES = (".log", ".txt", ".out", ".err", ".trace")
_LARGEST = 4_000_000
# A request is read at its ends; the lines before and after the error fit into one.
_BEFORE, _AFTER = 9_000, 6_000
_MOST_LOGS = 3
_NAMED = re.compile(
    rf"(?<![\w/\\.~:-])(?:~/|\.{{1,2}}/|/)?(?:[\w.@+-]+/)*[\w.@+-]+(?:{'|'.join(map(re.escape, SUFFIXES))})\b"
)


def with_named_logs(request: str, paths: Sequence[str | Path], root: Path) -> tuple[str, tuple[str | Path, ...]]:
    """Return a request with the errors of the logs that it names, and the paths that are no such logs.

    A log is a file of the project or of the current directory whose name ends in one of `SUFFIXES` and which contains a
    stack trace or a known error message.

    Args:
        request: The user's request.
        paths: Paths that the user named apart from it.
        root: The project.
    """
    from esper_agents.requests.parsing import prose_of

    found: dict[Path, str] = {}
    rest: list[str | Path] = []
    for path in paths:
        file = Path.cwd() / Path(path).expanduser()
        text = error_part(file) if file.suffix in SUFFIXES and _is_inside(file, root) else ""
        if text:
            found[file.resolve()] = text
        else:
            rest.append(path)
    for file in _named_files(prose_of(request), root):
        if file not in found and len(found) < _MOST_LOGS and (text := error_part(file)):
            found[file] = text
    parts = [request, *(f"Content of {_shown(file, root)}:\n{text}" for file, text in found.items())]
    return "\n\n".join(parts), tuple(rest)


def error_part(file: Path) -> str:
    """Return the part of a log around its first relevant error; empty if it has none or cannot be read."""
    from esper_agents.traces.families import find_message, primary_trace
    from esper_agents.traces.parsing import parse_traces

    try:
        with file.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except OSError:
        return ""
    text = data[:_LARGEST].decode("utf-8", "replace")
    traces = parse_traces(text) or find_message(text)
    if not traces:
        return ""
    trace = primary_trace(traces)
    first_line = trace.message.strip().partition("\n")[0]
    at = max(text.find(first_line or trace.exception), 0)
    return text[max(at - _BEFORE, 0) : at + _AFTER].strip("\n")


def _named_files(prose: str, root: Path) -> Iterator[Path]:
    """Yield the existing files that the words of a request name, inside the project or the current directory."""
    for match in _NAMED.finditer(prose):
        for folder in (Path.cwd(), root):
            file = Path(os.path.normpath(folder / Path(match.group()).expanduser()))
            if _is_inside(file, root) and file.is_file():
                yield file.resolve()
                break


def _is_inside(file: Path, root: Path) -> bool:
    """Return whether a file is in the project or the current directory, symbolic links followed."""
    return any(file.resolve().is_relative_to(each.resolve()) for each in (Path.cwd(), root))


def _shown(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name
