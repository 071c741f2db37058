"""Functions that run as forward hooks of modules."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.names import dotted, tail_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function


def forward_hooks(file: FileTables, index: ProjectIndex) -> dict[Function, frozenset[str]]:
    """Return the functions of a file that run as forward hooks, each with the names of the outputs they are handed."""
    found: dict[Function, frozenset[str]] = {}
    for call in file.calls_ending("register_forward_hook"):
        hook = call.argument(0, "hook")
        for function in _behind(hook, call, index) if hook is not None else ():
            names = [name for name in function.parameters if name not in {"self", "cls"}]
            found[function] = frozenset(names[1:])
    return found


def _behind(hook: ast.expr, call: Call, index: ProjectIndex) -> Iterator[Function]:
    """Yield the function that is handed over as a hook, or those that the function called for it defines."""
    if isinstance(hook, ast.Call) and tail_of(dotted(hook.func)) == "partial" and hook.args:
        hook = hook.args[0]
    path = dotted(hook.func if isinstance(hook, ast.Call) else hook)
    owner = owner_of(call.function)
    named = index.method(owner, tail_of(path)) if owner is not None and path.startswith("self.") else None
    function = named or index.local_function(path, call.function)
    if function is not None:
        yield from function.inner if isinstance(hook, ast.Call) else (function,)


def gathering_lambdas(file: FileTables) -> Iterator[tuple[Call, frozenset[str]]]:
    """Yield the appends that lambdas do as forward hooks, each with the names of the outputs it is handed."""
    for call in file.calls_ending("register_forward_hook"):
        hook = call.argument(0, "hook")
        if isinstance(hook, ast.Lambda):
            names = frozenset(arg.arg for arg in hook.args.args[1:])
            gather = next((each for each in call.function.calls if each.node is hook.body), None)
            if gather is not None and gather.tail in {"append", "extend"}:
                yield gather, names
