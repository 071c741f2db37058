"""Functions worth running: those from which calls may lead to a name that a query needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

# Without one of these names in sight no query has anything to say.
TRAINING = frozenset({"backward", "manual_backward"})
EVALUATION = frozenset({"eval", "no_grad", "inference_mode", "set_grad_enabled"})
_REPEATING = frozenset({"map", "load_state_dict"})
# What more functions call is a helper, such as an initialiser or a factory: its callers are not worth running for it.
MOST_CALLERS = 12


def reaching(index: ProjectIndex) -> frozenset[int]:
    """Return the identities of the syntax nodes of functions whose calls may lead to a seed, by names alone."""
    return index.once("functions that reach seeds", lambda: frozenset(_reaching(index)))


def _reaching(index: ProjectIndex) -> set[int]:
    by_name: dict[str, list[Function]] = {}
    # Frameworks call these: nothing in the project does.
    hooks: set[int] = set()
    for file in index.files.values():
        for function in file.functions:
            if function.name.endswith("_step") and function.owner is not None and function.owner.bases:
                hooks.add(id(function.node))
            for name in _names(function):
                by_name.setdefault(name, []).append(function)
    found: set[int] = set()
    edge = [*sorted(TRAINING), *sorted(EVALUATION)]
    seen = set(edge)
    while edge:
        sought = edge.pop()
        mentioning = by_name.get(sought, ())
        if len(mentioning) > MOST_CALLERS and sought not in TRAINING | EVALUATION:
            continue
        for function in mentioning:
            if id(function.node) in found or (sought in EVALUATION and not _repeats(function)):
                continue
            found.add(id(function.node))
            name = _called_as(function)
            if name and name not in seen:
                seen.add(name)
                edge.append(name)
    return found | hooks


def _repeats(function: Function) -> bool:
    """Return whether a function, or its class, has a loop, or loads weights to answer one request after the other."""
    owner = function.owner
    around = (function, *owner.methods.values()) if owner is not None else (function,)
    calls = (call for each in around for call in each.calls)
    return function.is_module or any(call.block.loop is not None or call.tail in _REPEATING for call in calls)


def _names(function: Function) -> set[str]:
    """Return the last names of what a function calls or is decorated with, and of the functions in it."""
    names = {call.tail for call in function.calls}
    names |= {decorator.rstrip("()").rpartition(".")[2] for decorator in function.decorators}
    for inner in function.inner:
        if inner.owner is None:
            names |= {inner.name}
    return names


def _called_as(function: Function) -> str:
    """Return the name by which calls reach a function; none for what instances run by themselves."""
    if function.is_module:
        return ""
    if function.name in {"__init__", "forward", "__call__"}:
        # Who makes an instance may call it.
        return function.owner.name if function.owner is not None else ""
    return function.name
