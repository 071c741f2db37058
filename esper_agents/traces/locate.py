"""Frames of a stack trace mapped to lines of the project, if the lines are certain."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.errors import InputFileError
from esper_agents.review.discover import discover
from esper_agents.review.source import ReviewSource, read

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.stack_trace import StackTrace, TraceFrame

_INSTALLED = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|lib/python\d|python\d[\d.]*/lib|torchrun$|torchinductor_|runpy\.py$)"
    r"|^<(?:frozen|string|stdin|unknown|eval_with)|^\.\./sysdeps|(?:^|/)Python\d+/Lib/",
    re.IGNORECASE,
)
_NEAR = 40
_LARGEST = 1_000_000


_PACKAGES = re.compile(r"(?:site|dist)-packages/")


@dataclass(frozen=True, slots=True)
class LocatedFrame:
    """A frame that is a line of the project.

    Attributes:
        frame: The frame as printed.
        location: The line in the project.
        moved: Whether the text of the frame is now at another line.
        is_verified: Whether the text of the line was compared; false if the trace does not print it.
    """

    frame: TraceFrame
    location: Location
    moved: bool
    is_verified: bool


@dataclass(frozen=True, slots=True)
class LocatedTrace:
    """Frames of a trace in the project.

    Attributes:
        frames: Frames of the project, the innermost first.
        installed: Number of frames in installed packages and in Python itself.
        unlocated: Other frames that no certain line of the project corresponds to.
        missing: The frame of `unlocated` that the innermost of `frames` called; None if that frame itself failed.
    """

    frames: tuple[LocatedFrame, ...]
    installed: int
    unlocated: tuple[TraceFrame, ...]
    missing: TraceFrame | None = None


class ProjectSources:
    """Python files of a project, read on demand.

    Attributes:
        examined: Files that were read, by path.
    """

    def __init__(self, root: Path) -> None:
        """Belong to a project directory."""
        self.root = root
        self.examined: dict[str, SourceFile] = {}
        self._texts: dict[str, str | None] = {}
        self._trees: dict[str, ast.Module | None] = {}

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Paths of the Python files, relative to the project."""
        try:
            return tuple(file.path for file in discover(self.root, [self.root]) if file.path.endswith(".py"))
        except InputFileError:
            return ()

    def text(self, path: str) -> str | None:
        """Return the text of a file; None if it cannot be read as Python source."""
        if path not in self._texts:
            source = read(self.root / path, path)
            is_readable = isinstance(source, ReviewSource) and len(source.text) <= _LARGEST
            self._texts[path] = source.text if is_readable and isinstance(source, ReviewSource) else None
            if isinstance(source, ReviewSource):
                self.examined[path] = source.record
        return self._texts[path]

    def lines(self, path: str) -> list[str]:
        """Return the lines of a file; empty if it cannot be read."""
        return (self.text(path) or "").split("\n")

    def tree(self, path: str) -> ast.Module | None:
        """Return the syntax tree of a file; None if it does not parse."""
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse(self.text(path) or "")
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[path] = None
        return self._trees[path]


def locate_trace(trace: StackTrace, sources: ProjectSources) -> LocatedTrace:
    """Return the frames of a trace that are lines of the project, those of its causes included."""
    located: list[LocatedFrame] = []
    unlocated: list[TraceFrame] = []
    installed, missing = 0, None
    # The cause was raised first and ran innermost.
    for each in [*trace.chain][::-1]:
        for frame in reversed(each.frames):
            if is_installed(frame.path, sources.root) and not _is_of_project(frame.path, sources):
                installed += 1
            elif (found := locate_frame(frame, sources)) is not None:
                located.append(found)
            else:
                unlocated.append(frame)
                missing = missing if located else missing or frame
    return LocatedTrace(tuple(dict.fromkeys(located)), installed, tuple(unlocated), missing if located else None)


def is_installed(path: str, root: Path) -> bool:
    """Return whether a path is inside an installed package or Python itself, on any machine."""
    plain = path.replace("\\", "/")
    return not plain.startswith(f"{root.as_posix()}/") and bool(_INSTALLED.search(plain))


def _is_of_project(path: str, sources: ProjectSources) -> bool:
    """Return whether a file of an installed package is one of the project, which is that package."""
    tail = _PACKAGES.split(path.replace("\\", "/"))[-1]
    return tail != path and any(each in {tail, f"src/{tail}", f"lib/{tail}"} for each in sources.paths)


def locate_frame(frame: TraceFrame, sources: ProjectSources) -> LocatedFrame | None:
    """Return the line of the project that a frame is at; None if it is not certain."""
    for path in _candidates(frame.path, sources):
        lines = sources.lines(path)
        if not frame.text:
            if 0 < frame.line <= len(lines) and _has_function(frame, path, sources):
                return LocatedFrame(frame, Location(path, frame.line), moved=False, is_verified=False)
            continue
        if (line := _line_with_text(frame, path, sources)) is not None:
            return LocatedFrame(frame, Location(path, line), moved=line != frame.line, is_verified=True)
    return None


def _candidates(printed: str, sources: ProjectSources) -> Iterable[str]:
    """Return the project's file with the longest common tail; more than one only if the tails are equally long."""
    parts = PurePosixPath(printed.replace("\\", "/")).parts
    if not parts or not parts[-1].endswith(".py"):
        return []
    by_length: dict[int, list[str]] = {}
    for path in sources.paths:
        own = PurePosixPath(path).parts
        common = 0
        for one, other in zip(reversed(parts), reversed(own), strict=False):
            if one != other:
                break
            common += 1
        if common:
            by_length.setdefault(common, []).append(path)
    if not by_length:
        return []
    best = by_length[max(by_length)]
    return best if len(best) == 1 else [path for path in best if len(PurePosixPath(path).parts) == max(by_length)]


def _has_function(frame: TraceFrame, path: str, sources: ProjectSources) -> bool:
    """Return whether the printed function contains the line; true for module code."""
    name = frame.function.rpartition(".")[2]
    tree = sources.tree(path)
    if tree is None or not name.isidentifier():
        return tree is not None
    return any(first <= frame.line <= last for first, last in _ranges(tree, name))


def _line_with_text(frame: TraceFrame, path: str, sources: ProjectSources) -> int | None:
    """Return the line with the text of a frame: the printed one, else the only one in its function or in the file."""
    lines = sources.lines(path)
    wanted = " ".join(frame.text.split())
    places = [number for number, line in enumerate(lines, 1) if " ".join(line.split()) == wanted]
    if frame.line in places:
        return frame.line
    tree = sources.tree(path)
    ranges = _ranges(tree, frame.function.rpartition(".")[2]) if tree is not None else []
    inside = [place for place in places if any(first <= place <= last for first, last in ranges)]
    near = [place for place in places if abs(place - frame.line) <= _NEAR]
    for group in ([place for place in inside if place in near], inside, near if not ranges else [], places):
        if len(group) == 1:
            return group[0]
    return None


def _ranges(tree: ast.Module, name: str) -> list[tuple[int, int]]:
    return [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
