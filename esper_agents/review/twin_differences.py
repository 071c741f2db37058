"""Differences of two definitions of one purpose that the code shows: gradients, parameters, results and purpose."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.definition_text import purpose_of_node
from esper_agents.review.names import tail_of, walk
from esper_agents.review.tables import Class, Function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex

_NO_GRADIENT = re.compile(r"(?:torch\.)?(?:no_grad|inference_mode)\b")
_LONGEST, _MOST_CALLS = 70, 5


def differences(one: Class | Function, other: Class | Function, index: ProjectIndex) -> dict[Class | Function, str]:
    """Return what each of two definitions is and does that the other is not and does not, in one clause each.

    Args:
        one: A definition.
        other: The other definition.
        index: Facts about all files of the project.
    """
    told = {each: dict(_properties(each, index)) for each in (one, other)}
    found = {}
    for each, beside in ((one, told[other]), (other, told[one])):
        parts = [text for name, text in told[each].items() if text and beside.get(name) != text]
        calls = _calls(each, index) - _calls(other if each is one else one, index)
        ordered = [name for name in _ordered_calls(each, index) if name in calls][:_MOST_CALLS]
        parts += [f"alone calls {', '.join(f'`{name}`' for name in ordered)}"] if ordered else []
        wraps = _wraps(each, other if each is one else one, index)
        found[each] = "; ".join((wraps, *parts) if wraps else parts)
    return found


def _properties(found: Class | Function, index: ProjectIndex) -> Iterator[tuple[str, str]]:
    """Yield what can differ, by name."""
    entry = _entry(found, index)
    yield "purpose", f"is described as {purpose}" if (purpose := purpose_of_node(found.node)) else ""
    if entry is None:
        return
    if any(_NO_GRADIENT.search(each) for each in entry.decorators):
        yield "gradient", f"runs under `{entry.decorators[0]}`, so that no gradient flows through it"
    elif owner := _applied(entry, index):
        backward = owner.methods.get("backward")
        line = getattr(backward.node, "lineno", 0) if backward is not None else 0
        yield "gradient", f"has its gradient from the `backward` of `{owner.name}` (line {line})" if line else ""
    run = [entry]
    if (owner := _applied(entry, index)) and (forward := owner.methods.get("forward")):
        run.append(forward)
    ignored = [f"`{name}` ({function.file.path}:{_line(function)})" for function in run for name in _ignored(function)]
    yield (
        "ignored",
        f"does not read its parameter{'s' if len(ignored) > 1 else ''} {', '.join(ignored)}" if ignored else "",
    )
    results = [ast.unparse(each.value) for each, _ in run[-1].returns if each.value is not None]
    short = results[-1] if results and len(results[-1]) <= _LONGEST else ""
    yield "result", f"returns `{short}`" if short else ""


def _wraps(found: Class | Function, other: Class | Function, index: ProjectIndex) -> str:
    """Return with which settings a function calls the other one, and what each decides there; empty if it does not."""
    if not isinstance(found, Function) or not isinstance(other, Function):
        return ""
    for call in found.calls:
        if other not in index.callees(call):
            continue
        given = [each for each in call.node.keywords if each.arg and isinstance(each.value, ast.Constant)]
        arms = [text for each in given if (text := _arms(other, each.arg or ""))]
        settings = ", ".join(f"{each.arg}={ast.unparse(each.value)}" for each in given)
        with_them = f" with `{settings}`" if settings else ""
        return "; ".join((f"calls `{other.name}`{with_them}", *arms))
    return ""


def _arms(function: Function, parameter: str) -> str:
    """Return what a function runs depending on a parameter alone."""
    for node in walk(function.node):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == parameter and node.orelse:
            shown = [" ".join(ast.unparse(each).split())[:_LONGEST] for each in (node.body[0], _main(node.orelse))]
            return f"there, `{parameter}` decides between `{shown[0]}` and `{shown[1]}` (line {node.lineno})"
    return ""


def _main(arm: list[ast.stmt]) -> ast.stmt:
    """Return the first statement of an arm that is a call and nothing else; without one, its first."""
    return next((each for each in arm if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)), arm[0])


def _entry(found: Class | Function, index: ProjectIndex) -> Function | None:
    if isinstance(found, Function):
        return found
    return index.method(found, "forward") or index.method(found, "__call__") or index.method(found, "__init__")


def _applied(function: Function, index: ProjectIndex) -> Class | None:
    """Return the autograd function that a function applies, or that it is the `forward` of."""
    for call in function.calls:
        if call.tail == "apply" and isinstance(call.node.func, ast.Attribute):
            name = tail_of(call.receiver)
            owners = [each for file in index.files.values() for each in file.classes if each.name == name]
            if len(owners) == 1:
                return owners[0]
    return None


def _ignored(function: Function) -> list[str]:
    """Return the parameters with a default that a function never reads; none of one that only raises or passes."""
    arguments = getattr(function.node, "args", None)
    if arguments is None or not function.calls:
        return []
    plain = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    optional = plain[len(plain) - len(arguments.defaults) :] + [each.arg for each in arguments.kwonlyargs]
    read = {node.id for node in walk(function.node) if isinstance(node, ast.Name)}
    return [name for name in optional if name not in read and not name.startswith("_")]


def _line(function: Function) -> int:
    return int(getattr(function.node, "lineno", 1))


def _ordered_calls(found: Class | Function, index: ProjectIndex) -> list[str]:
    entry = _entry(found, index)
    if entry is None:
        return []
    reached = [each for each in index.closure(entry) if each.file is entry.file]
    if owner := _applied(entry, index):
        forward = owner.methods.get("forward")
        reached += [each for each in index.closure(forward) if each.file is forward.file] if forward else []
    return list(dict.fromkeys(call.name for each in reached for call in each.calls if call.name.startswith("torch.")))


def _calls(found: Class | Function, index: ProjectIndex) -> set[str]:
    return set(_ordered_calls(found, index))
