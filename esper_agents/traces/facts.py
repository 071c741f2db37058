"""Registry of the facts about code and messages that tell causes apart, and what they read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.traces.scopes import enclosing_function, statement_at

if TYPE_CHECKING:
    from esper_agents.domain.finding import Location
    from esper_agents.domain.stack_trace import StackTrace
    from esper_agents.traces.locate import LocatedFrame, ProjectSources

_MOST_FILES = 400
_MOST_SAME = 4


@dataclass(frozen=True, slots=True)
class FactContext:
    """What a fact may read.

    Attributes:
        groups: Parts of the message, by name.
        trace: The exception.
        frames: Its frames in the project, the innermost first.
        sources: Files of the project; None without a project.
        forward: Frames that anomaly mode printed for the failing operation, the innermost first.
        text: The whole text that contains the trace.
    """

    groups: Mapping[str, str]
    trace: StackTrace
    frames: tuple[LocatedFrame, ...]
    sources: ProjectSources | None
    forward: tuple[LocatedFrame, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class TraceFact:
    """A fact that holds.

    Attributes:
        values: Texts for the explanation, by name.
        location: Line that the explanation is about; None if that is the line of the frame.
        also: Other lines with the same pattern.
    """

    values: Mapping[str, str]
    location: Location | None = None
    also: tuple[Location, ...] = ()


FactFunction: TypeAlias = Callable[[FactContext], TraceFact | None]
FACTS: dict[str, FactFunction] = {}


def fact(function: FactFunction) -> FactFunction:
    """Register a fact by the name of its function."""
    FACTS[getattr(function, "__name__", "")] = function
    return function


def files_with(sources: ProjectSources, word: str, *, first: set[str]) -> Iterator[str]:
    """Yield the files that contain a word, those of the trace first."""
    ordered = [path for path in sources.paths if path in first] + [path for path in sources.paths if path not in first]
    for path in ordered[:_MOST_FILES]:
        if word in (sources.text(path) or ""):
            yield path


def function_of(context: FactContext) -> tuple[ast.AST | None, LocatedFrame | None]:
    """Return the function at the innermost frame in the project."""
    if not context.frames:
        return None, None
    return enclosing(context.sources, context.frames[0]), context.frames[0]


def enclosing(
    sources: ProjectSources | None, frame: LocatedFrame
) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Module | None:
    """Return the function around a frame, else the module; None without its file."""
    tree = sources.tree(frame.location.path) if sources else None
    return enclosing_function(tree, frame.location.line) or tree


def tree_of(context: FactContext, frame: LocatedFrame) -> ast.Module | None:
    """Return the syntax tree of a frame's file; None without it."""
    return context.sources.tree(frame.location.path) if context.sources else None


def method_calls(node: ast.AST, *names: str) -> Iterator[ast.Call]:
    """Yield the calls of methods with these names."""
    yield from (each for each in ast.walk(node) if isinstance(each, ast.Call) and method_of(each) in names)


def method_of(call: ast.Call) -> str:
    """Return the name of the method that a call calls; empty for other calls."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def same_statements(context: FactContext) -> tuple[Location, ...]:
    """Return the other lines in the file of the innermost frame that have the text of the failing statement."""
    frame = context.frames[0] if context.frames else None
    tree = tree_of(context, frame) if frame is not None else None
    if frame is None or tree is None:
        return ()
    failed = ast.unparse(statement_at(tree, frame.location.line))
    simple = (ast.Expr, ast.Assign, ast.Return, ast.AugAssign)
    same = [node for node in ast.walk(tree) if isinstance(node, simple) and node.lineno != frame.location.line]
    found = [replace(frame.location, line=node.lineno) for node in same if failed and ast.unparse(node) == failed]
    return tuple(sorted(found, key=lambda each: each.line)[:_MOST_SAME])
