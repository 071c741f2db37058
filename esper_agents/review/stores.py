"""Lists and dicts that gather something: whether they are emptied, made anew, or read on the way."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, root_of, tail_of, walk

if TYPE_CHECKING:
    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Class, Function

_EMPTYING = ("clear", "pop", "popleft", "popitem", "remove", "reset", "__delitem__")


def is_emptied(store: str, function: Function, index: ProjectIndex) -> bool:
    """Return whether somebody empties a store, bounds it or makes it anew, so that it does not grow for ever."""
    name, is_shared = tail_of(store), "." in store
    emptied = index.calls_ending(*_EMPTYING) if is_shared else function.file.calls_ending(*_EMPTYING)
    if any(tail_of(each.receiver) == name for each in emptied):
        return True
    if re.search(rf"\bdel {re.escape(store)}\b", function.file.text) is not None:
        return True
    made = [each for other in function.file.functions for each in other.assignments.get(store, ())]
    if is_shared:
        made += [each for each in _by_attribute(index).get(name, ()) if each.target.rstrip("[]") != store]
    if any(re.search(r"maxlen|deque\(.+,", ast.unparse(each.value)) for each in made):
        return True
    return is_shared and any(each.block.function.name != "__init__" and not each.is_augmented for each in made)


def _by_attribute(index: ProjectIndex) -> dict[str, list[Assignment]]:
    """Return what the reviewed files assign to attributes, by the attribute's name."""
    return index.once("assignments to attributes", lambda: _find(index))


def _find(index: ProjectIndex) -> dict[str, list[Assignment]]:
    found: dict[str, list[Assignment]] = {}
    for file in index.files.values():
        for function in file.functions:
            for target, assignments in function.assignments.items():
                if "." in target:
                    found.setdefault(tail_of(target), []).extend(assignments)
    return found


def starts_in_init(store: str, owner: Class) -> bool:
    """Return whether an attribute is an empty list from the making of its object on."""
    made = owner.attributes.get(store, ())
    return bool(made) and all(each.block.function.name == "__init__" and _is_empty_store(each.value) for each in made)


def _is_empty_store(value: ast.expr) -> bool:
    """Return whether a value is a list, a deque without a bound, or a dict of such."""
    if isinstance(value, ast.Call):
        is_bounded = len(value.args) > 1 or any(keyword.arg == "maxlen" for keyword in value.keywords)
        return tail_of(dotted(value.func)) in {"list", "deque", "defaultdict"} and not is_bounded
    return isinstance(value, ast.List) or (isinstance(value, ast.Dict) and not value.keys)


def is_made_in(store: str, function: Function, around: Block) -> bool:
    """Return whether a store, or the object that holds it, is made anew in every round of a block."""
    paths = {store} if store.startswith("self.") else {store, root_of(store)}
    return any(
        each.block.within(around) and not each.is_augmented and store not in ast.unparse(each.value)
        for path in paths
        for each in function.assignments.get(path, ())
    )


def is_read_in(store: str, around: Block, gathering: ast.AST) -> bool:
    """Return whether a block reads a store for more than its length, the statement that gathers aside."""
    aside = {id(each) for each in walk(gathering)}
    for each in walk(around.node):
        if isinstance(each, ast.Call) and dotted(each.func) == "len":
            aside |= {id(part) for argument in each.args for part in walk(argument)}
        elif isinstance(each, ast.Attribute) and each.attr in {"append", "extend"} and dotted(each.value) == store:
            aside |= {id(part) for part in walk(each)}
    return any(
        isinstance(each, ast.Name | ast.Attribute)
        and isinstance(each.ctx, ast.Load)
        and dotted(each) == store
        and id(each) not in aside
        for each in walk(around.node)
    )
