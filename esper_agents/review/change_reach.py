"""Reach of the edits of a change: the calls that an edit affects, and the writes in place after a lost copy."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.review.index import ProjectIndex, argument_for
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.parsing import tables_of
from esper_agents.review.rule_codes import GUARD
from esper_agents.review.source import ReviewSource
from esper_agents.review.tables import FileTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.change_description import DescribedEdit
    from esper_agents.review.source import Unreadable
    from esper_agents.review.tables import Call, Class, Function

_DEFAULT = re.compile(r"^the default of `(\w+)` is ")
_ASSIGNED = re.compile(r"^`(\w+)` is `")
_ADDED = re.compile(r"^(?:adds|new file|`.+` moved|the file is)")
_LOST_CALL = re.compile(r"`([^`]+)` lost its `(\.(?:clone|copy)\(.*\)|(?:copy\.)?(?:deep)?copy\(\.\.\.\))`")
_QUOTED = re.compile(r"`([^`]+)`")
_COPIES = frozenset(("clone", "copy", "deepcopy"))
_CHANGES_DATA = frozenset(
    ("append", "extend", "insert", "pop", "popitem", "clear", "update", "setdefault", "remove", "sort", "reverse")
)
_MOST_PLACES = 3
# Parsing more for the callers of a change would take longer than its review.
_LARGEST = 3_000_000


class ChangeReach:
    """Functions of the new tree, and what an edit in one of them affects."""

    def __init__(self, sources: Iterable[ReviewSource | Unreadable]) -> None:
        """Parse the sources of the new tree; none if they are too many."""
        read = [source for source in sources if isinstance(source, ReviewSource) and source.notebook is None]
        small = read if sum(len(source.text) for source in read) <= _LARGEST else []
        tables = [tables_of(source) for source in small]
        self._index = ProjectIndex([each for each in tables if isinstance(each, FileTables)])
        self._told: set[Function | Class] = set()

    def of_edits(self, edits: Sequence[DescribedEdit]) -> tuple[DescribedEdit, ...]:
        """Return edits with what each affects; the calls of a function are named with its first edit."""
        return tuple(self._of_edit(edit) for edit in edits)

    def of_guards(self, claims: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
        """Yield diagnostics; one of a removed copy with the writes in place that reach the original."""
        for claim in claims:
            copied = [_copied(text) for text in _QUOTED.findall(claim.message)] if claim.rule == GUARD else []
            function = self._function(claim.location.path, claim.location.line)
            found = next((each for each in copied if each), "")
            written = self._written(found, function, claim.location.line) if found and function else ""
            yield replace(claim, message=f"{claim.message}; {written}") if written else claim

    def _of_edit(self, edit: DescribedEdit) -> DescribedEdit:
        function = self._function(edit.path, edit.line)
        if function is None or _ADDED.match(edit.text):
            return edit
        if default := _DEFAULT.match(edit.text):
            parts = [self._without(function, default.group(1))]
        else:
            parts = [*self._writes(edit, function), *self._uses(edit, function), self._called(function)]
        return replace(edit, text="; ".join(filter(None, (edit.text, *parts))))

    def _function(self, path: str, line: int) -> Function | None:
        """Return the innermost function around a line."""
        file = self._index.files.get(path)
        inside = [each for each in file.functions[1:] if _is_in(line, each.node)] if file is not None else []
        return max(inside, key=lambda each: int(getattr(each.node, "lineno", 0)), default=None)

    def _without(self, function: Function, parameter: str) -> str:
        """Return the calls that leave a parameter to its default."""
        calls = self._index.callers(function)
        leaving = [call for call in calls if argument_for(call, function, parameter) is None and not call.has_splat()]
        if not leaving:
            return "no call in the files that were read takes it" if calls else "it is what callers get that omit it"
        return f"{len(leaving)} of {number_of(len(calls), 'call')} there take it: {_places(leaving)}"

    def _writes(self, edit: DescribedEdit, function: Function) -> Iterator[str]:
        lost = _LOST_CALL.search(edit.text)
        copied = lost.group(1) if lost else _copied_to_itself(edit.base) if " is gone" in edit.text else ""
        if copied:
            yield self._written(copied, function, edit.line)

    def _written(self, path: str, function: Function, line: int) -> str:
        """Return where something is changed in place of which the change removes a copy."""
        owner, shown = function.owner, path
        find = _writes
        if held := _held(function, path, line):
            find, path, shown = _writes_to_elements, held, f"{path}` in `{held}"
        is_attribute = path.startswith("self.") and owner is not None
        functions = list(owner.methods.values()) if is_attribute and owner is not None else [function]
        lines = sorted({each for one in functions for each in find(one, path) if is_attribute or each >= line})
        if not lines:
            return ""
        more = f" and {len(lines) - _MOST_PLACES} more" if len(lines) > _MOST_PLACES else ""
        where = f"{', '.join(f'{function.file.path}:{each}' for each in lines[:_MOST_PLACES])}{more}"
        caller = ", so the object of the caller changes" if path in function.parameters else ""
        return f"`{shown}` is changed in place at {where}{caller}"

    def _uses(self, edit: DescribedEdit, function: Function) -> Iterator[str]:
        """Yield where a local value that the change sets is used."""
        if found := _ASSIGNED.match(edit.text):
            name = found.group(1)
            lines = [each.lineno for each in ast.walk(function.node) if isinstance(each, ast.Name) and each.id == name]
            used = sorted({each for each in lines if each > edit.line})
            if used:
                yield f"`{name}` is used in line{'s' if len(used) > 1 else ''} {', '.join(map(str, used[:4]))}"

    def _called(self, function: Function) -> str:
        """Return where a function is called, or of a method who uses its class; empty if that was said before."""
        owner = function.owner
        if function in self._told or (owner is not None and owner in self._told):
            return ""
        self._told.add(function)
        if calls := [call for call in self._index.callers(function) if call.function is not function]:
            return f"`{function.name}` is called at {_places(calls)}"
        if owner is None:
            return ""
        self._told.add(owner)
        made = [
            call
            for call in self._index.calls_ending(owner.name)
            if self._index.class_called(call.node, call.function) is owner
        ]
        heirs = [
            f"`{each.name}` ({file.path}:{each.node.lineno})"
            for file in self._index.files.values()
            for each in file.classes
            if owner.name in {tail_of(base) for base in each.bases}
        ]
        parts = [f"`{owner.name}` is made at {_places(made)}"] if made else []
        parts += [f"`{owner.name}` is the base of {', '.join(heirs[:_MOST_PLACES])}"] if heirs else []
        return "; ".join(parts)


def _is_in(line: int, node: ast.AST) -> bool:
    first: int = getattr(node, "lineno", 0)
    return first <= line <= int(getattr(node, "end_lineno", first))


def _places(calls: Sequence[Call]) -> str:
    places = list(dict.fromkeys(f"{call.function.file.path}:{call.line}" for call in calls))
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    return f"{', '.join(places[:_MOST_PLACES])}{more}"


def _copied(text: str) -> str:
    """Return what an expression copies, such as `self.bank` of `self.bank.clone()`; empty if it copies nothing."""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    if not isinstance(node, ast.Call) or tail_of(dotted(node.func)) not in _COPIES:
        return ""
    if node.args:
        return dotted(node.args[0])
    return dotted(node.func.value) if isinstance(node.func, ast.Attribute) else ""


def _copied_to_itself(line: str) -> str:
    """Return the name that a line replaced by a copy of itself; empty for other lines."""
    target, _, value = line.partition(" = ")
    return target if value and _copied(value) == target else ""


def _writes(function: Function, path: str) -> Iterator[int]:
    """Yield the lines of a function that change what a path holds in place."""
    for assignment in function.assignments.get(f"{path}[]", ()):
        yield assignment.statement.lineno
    for call in function.calls:
        is_change = call.tail in _CHANGES_DATA or (call.tail.endswith("_") and not call.tail.endswith("__"))
        if call.receiver == path and is_change:
            yield call.line


def _writes_to_elements(function: Function, path: str) -> Iterator[int]:
    """Yield the lines of a function that change the elements of a list in place; a new element changes none."""
    for loop in ast.walk(function.node):
        name = _element(loop, path) if isinstance(loop, ast.For) else ""
        if not name or not isinstance(loop, ast.For):
            continue
        for call in function.calls:
            is_inside = loop.lineno <= call.line <= (loop.end_lineno or loop.lineno)
            is_in_place = call.tail.endswith("_") and not call.tail.endswith("__")
            if is_inside and is_in_place and call.receiver in {name, f"{name}.data"}:
                yield call.line


def _held(function: Function, path: str, line: int) -> str:
    """Return the attribute whose list a comprehension fills with what a path names; empty without one."""
    for assigned in (each for held in function.assignments.values() for each in held):
        value, last = assigned.value, assigned.statement.end_lineno or assigned.statement.lineno
        if not (isinstance(value, ast.ListComp) and assigned.statement.lineno <= line <= last):
            continue
        if any(isinstance(each.target, ast.Name) and each.target.id == path for each in value.generators):
            return assigned.target
    return ""


def _element(loop: ast.For, path: str) -> str:
    """Return the variable of a loop that takes the elements of a list, also beside others in `zip`."""
    if dotted(loop.iter) == path and isinstance(loop.target, ast.Name):
        return loop.target.id
    match loop.iter, loop.target:
        case ast.Call(func=ast.Name(id="zip"), args=lists), ast.Tuple(elts=names):
            pairs = zip(lists, names, strict=False)
            return next((name.id for each, name in pairs if dotted(each) == path and isinstance(name, ast.Name)), "")
        case _:
            return ""
