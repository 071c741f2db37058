"""Find the user's line that a stack, an exception or a message of torch refers to."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import TYPE_CHECKING

from .. import FOLDER
from .source_place import SourcePlace
from .stack_frames import StackFrame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .target import LoadedTarget

_ADDRESS = re.compile(r" at 0x[0-9a-f]+|\b\d{12,}\b")
_ABOVE_A_LIBRARY = re.compile(r"(?:/[^\s/`'\"()]+)+/(?=(?:site-packages|python3\.\d+)/)")
_MOST_SOURCE = 200
_LONGEST_PATH = 12


def place(target: LoadedTarget, frames: Iterable[StackFrame]) -> SourcePlace | None:
    """Return the last frame in the user's files, with its source line; None without one."""
    own = _own(target, frames)
    return own[-1] if own else None


def path(target: LoadedTarget, frames: Iterable[StackFrame]) -> tuple[SourcePlace, ...]:
    """Return the frames in the user's files, outermost first, without consecutive duplicates."""
    own = _own(target, frames)
    kept = [each for before, each in zip([None, *own], own, strict=False) if before != each]
    return tuple(kept[-_LONGEST_PATH:])


def outside(target: LoadedTarget, frames: Iterable[StackFrame]) -> str | None:
    """Return `file:line in function` of the innermost frame outside our code, if it is not the user's."""
    others = [frame for frame in frames if not frame.filename.startswith(FOLDER)]
    if not others or target.in_project(others[-1].filename) is not None:
        return None
    last = others[-1]
    return f"{'/'.join(Path(last.filename).parts[-2:])}:{last.line} in {last.function}"


def _own(target: LoadedTarget, frames: Iterable[StackFrame]) -> list[SourcePlace]:
    found: list[SourcePlace] = []
    for frame in frames:
        file = target.in_project(frame.filename)
        if file is not None:
            found.append(SourcePlace(file=file, line=frame.line, function=frame.function, source=source(frame)))
    return found


def plain(target: LoadedTarget, text: str) -> str:
    """Return a text of torch with short paths and without addresses: both differ between machines."""
    relative = _ABOVE_A_LIBRARY.sub("", text.replace(target.root.rstrip("/") + "/", ""))
    return _ADDRESS.sub("", relative)


def source(at: StackFrame) -> str:
    """Return the text of a line, empty if it cannot be read."""
    return linecache.getline(at.filename, at.line).strip()[:_MOST_SOURCE]


def definition(target: LoadedTarget) -> SourcePlace | None:
    """Return the location of the target's definition."""
    if target.file is None or target.line is None:
        return None
    function = target.name.rpartition(":")[2].rpartition(".")[2]
    at = StackFrame(str(Path(target.root, target.file)), target.line, function)
    return SourcePlace(file=target.file, line=target.line, function=function, source=source(at))


def completed(target: LoadedTarget, files: Iterable[str], ending: str) -> str | None:
    """Return the full name of a user file whose path torch truncated; None if no file matches."""
    return next((file for file in sorted(files) if file.endswith(ending) and target.in_project(file)), None)
