"""Renames of a change that other code or saved files can see: parameters, and attributes that name saved state."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.review.names import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST_PLACES = 3
_STATE = frozenset(("Parameter", "ParameterList", "ParameterDict", "UninitializedParameter"))


@dataclass(frozen=True, slots=True)
class VisibleRename:
    """Rename with consequences outside of the function or class.

    Attributes:
        line: Line in the new file.
        base_line: Line in the old file.
        text: The rename and what follows from it.
        use: How an edit of another statement that uses the new name ends; empty if there can be none.
    """

    line: int
    base_line: int
    text: str
    use: str = ""


def visible_renames(
    path: str, before: str, after: str, names: Mapping[str, str], sources: Mapping[str, str]
) -> Iterator[VisibleRename]:
    """Yield the renames that are more than form.

    Args:
        path: The file, relative to the project.
        before: Its old source.
        after: Its new source.
        names: New names of what is only called otherwise, by the old ones.
        sources: All sources of the new tree, by path, in which calls pass arguments by name.

    Raises:
        SyntaxError: A source of the file is not Python.
    """
    old, new = ast.parse(before), ast.parse(after)
    old_functions, new_functions = dict(_functions(old)), dict(_functions(new))
    for name, function in old_functions.items() if names else ():
        now = new_functions.get(names.get(name, name))
        if now is not None:
            yield from _of_parameters(path, names.get(name, name), (function, now), sources)
    old_classes, new_classes = _module_classes(old), _module_classes(new)
    for name, was in old_classes.items():
        is_now = new_classes.get(names.get(name, name))
        if is_now is not None:
            yield from _of_state(was, is_now, names)


def _functions(tree: ast.Module) -> Iterator[tuple[str, _Function]]:
    """Yield the functions of a module, and the constructors of its classes, by the name that calls use."""
    for each in tree.body:
        if isinstance(each, _FUNCTIONS):
            yield each.name, each
        elif isinstance(each, ast.ClassDef):
            made = [part for part in each.body if isinstance(part, _FUNCTIONS) and part.name == "__init__"]
            yield from ((each.name, part) for part in made)


def _of_parameters(
    path: str, name: str, both: tuple[_Function, _Function], sources: Mapping[str, str]
) -> Iterator[VisibleRename]:
    """Yield the renamed parameters that calls in the new tree still pass by their old names."""
    was, now = (each.args for each in both)
    pairs = (*zip(was.args, now.args, strict=False), *zip(was.kwonlyargs, now.kwonlyargs, strict=False))
    known = {each.arg for each in (*now.posonlyargs, *now.args, *now.kwonlyargs)}
    if now.kwarg is not None:
        return
    for old, new in pairs:
        if old.arg == new.arg or old.arg in known:
            continue
        if places := list(_calls_by_name(path, name, old.arg, sources)):
            more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
            shown = f"{', '.join(places[:_MOST_PLACES])}{more}"
            text = f"parameter `{old.arg}` of `{name}` is now called `{new.arg}`: {shown} still passes `{old.arg}=`"
            yield VisibleRename(new.lineno, old.lineno, text)


def _calls_by_name(path: str, name: str, argument: str, sources: Mapping[str, str]) -> Iterator[str]:
    """Yield the places of calls that pass an argument by name, in the file itself and in files that import it."""
    passed = re.compile(rf"\b{re.escape(argument)}\s*=")
    called = re.compile(rf"\b{re.escape(name)}\s*\(")
    imported = re.compile(rf"^\s*(?:from|import)\b.*\b{re.escape(PurePosixPath(path).stem)}\b", re.MULTILINE)
    for other, text in sources.items():
        is_near = other == path or imported.search(text)
        if not (is_near and called.search(text) and passed.search(text)):
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for each in ast.walk(tree):
            if not isinstance(each, ast.Call) or dotted(each.func).rpartition(".")[2] != name:
                continue
            if any(keyword.arg == argument for keyword in each.keywords):
                yield f"{other}:{each.lineno}"


def _module_classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    """Return the classes of a source that are modules of torch, as far as the source shows it."""
    classes = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)}
    found: dict[str, ast.ClassDef] = {}
    while True:
        more = {
            name: node
            for name, node in classes.items()
            if name not in found
            and any(
                (last := dotted(base).rpartition(".")[2]).endswith("Module") or last in found for base in node.bases
            )
        }
        if not more:
            return found
        found |= more


def _of_state(was: ast.ClassDef, now: ast.ClassDef, names: Mapping[str, str]) -> Iterator[VisibleRename]:
    """Yield the attributes that hold saved state under another name: gone, and come with the same value."""
    old, new = _attributes(was), _attributes(now)
    come = {name: each for name, each in new.items() if name not in old}
    for name, (value, base_line) in old.items():
        if name in new:
            continue
        same = [each for each, (other, _) in come.items() if ast.dump(other) == ast.dump(value)]
        other = names.get(name, same[0] if len(same) == 1 else "")
        if other not in come:
            continue
        is_called = f"self.{name}" in {dotted(each.func) for each in ast.walk(was) if isinstance(each, ast.Call)}
        match _holds_state(value):
            case True:
                follow = f"checkpoints with keys of `{name}` no longer load"
            case None if is_called:
                follow = f"if it holds a module, checkpoints with keys of `{name}.` no longer load"
            case _:
                continue
        text = f"`self.{name}` of `{now.name}` is now called `self.{other}`: {follow}"
        yield VisibleRename(new[other][1], base_line, text, f"`self.{other}` instead of `self.{name}`")


def _attributes(node: ast.ClassDef) -> dict[str, tuple[ast.expr, int]]:
    """Return the attributes of `self` that the class assigns, with their first value and its line."""
    found: dict[str, tuple[ast.expr, int]] = {}
    for each in ast.walk(node):
        match each:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AnnAssign(target=only, value=ast.expr() as value):
                targets = [only]
            case _:
                continue
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                found.setdefault(target.attr, (value, target.lineno))
    return found


def _holds_state(value: ast.expr) -> bool | None:
    """Return whether a value is a parameter or a module; None if the source does not show it."""
    if isinstance(value, ast.Call):
        path = dotted(value.func)
        last = path.rpartition(".")[2]
        if last in _STATE or (last[:1].isupper() and (path.startswith(("nn.", "torch.nn.")) or "." not in path)):
            # Any class can be a module; one of torch is.
            return True if last in _STATE or path.startswith(("nn.", "torch.nn.")) else None
        return False
    return None if isinstance(value, ast.Name) else False
