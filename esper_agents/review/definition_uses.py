"""Other parts of the project that do the work of a definition: inherited methods, functions and classes."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.definition_text import (
    alternatives_of,
    attributes_of,
    default_settings,
    described,
    flow_of,
    inherited_entry,
    length_of,
    main_method,
    path_of_calls,
    purpose_of_node,
    signature_of,
)
from esper_agents.review.names import dotted
from esper_agents.review.tables import Class, Function, Purpose

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from esper_agents.review.fact_query import Fact
    from esper_agents.review.index import ProjectIndex

_MOST_BASES, _MOST_INHERITED, _MOST_USED, _MOST_STEPS = 3, 3, 2, 2


def inherited_work(owner: Class, index: ProjectIndex) -> Iterator[Fact]:
    """Yield what a class inherits in the project: its bases, and the methods that run it, in the order of the calls.

    Args:
        owner: The class.
        index: Facts about all files of the project.
    """
    bases = index.lineage(owner).classes[1:]
    if not bases:
        return
    chain = ", ".join(f"`{each.name}` ({each.file.path}:{each.node.lineno})" for each in bases[:_MOST_BASES])
    more = f" and {len(bases) - _MOST_BASES} more" if len(bases) > _MOST_BASES else ""
    yield described(owner.file, owner.node.lineno, f"`{owner.name}` inherits from {chain}{more}", most=None)
    yield from _construction(owner)
    entry = inherited_entry(owner, index) or main_method(owner, index)
    path = list(path_of_calls(entry, owner, index)) if entry is not None else []
    # Of what a base class calls, that which leads to a method of this class.
    leading = [
        each
        for each in path
        if each.owner is not owner
        and (each is entry or any(one.owner is owner for one in path_of_calls(each, owner, index)))
    ]
    used = leading or [each for each in path if each.owner is not owner]
    calls = _calls_to({*leading, *(each for each in path if each.owner is owner)}, owner, index)
    for each in used[:_MOST_INHERITED]:
        yield from _inherited(each, index, _MOST_STEPS if each is entry else 1, calls)
    settings = {fact: None for each in used for base in bases for fact in default_settings(base, each)}
    yield from list(settings)[:1]


def _calls_to(methods: Collection[Function], owner: Class, index: ProjectIndex) -> set[str]:
    """Return the calls by which methods are reached, such as `self.loss`; of a method that an attribute holds, too."""
    names = {f"self.{method.name}" for method in methods}
    attributes = [pair for base in index.lineage(owner).classes for pair in attributes_of(base)]
    held = {path for path, each in attributes if {dotted(one) for one in alternatives_of(each.value)} & names}
    return names | held


def _construction(owner: Class) -> Iterator[Fact]:
    """Yield what a constructor passes to that of its base class, without what it only passes on."""
    init = owner.methods.get("__init__")
    for call in init.calls if init is not None else ():
        if call.path == "super().__init__" and (call.node.args or any(keyword.arg for keyword in call.node.keywords)):
            yield described(owner.file, call.line, f"its constructor calls `{ast.unparse(call.node)}`")


def _inherited(method: Function, index: ProjectIndex, most: int, calls: Collection[str]) -> Iterator[Fact]:
    of = f" of `{method.owner.name}`" if method.owner is not None else ""
    # The head takes a part of the line.
    for number, each in enumerate(flow_of(method, index, most, calls)):
        head = f"inherited `{method.name}`{of}: " if number == 0 else ""
        yield replace(described(method.file, each.line, f"{head}{each.text}", most=None), end_line=each.line)


def used_elsewhere(found: Class | Function, index: ProjectIndex) -> Iterator[Fact]:
    """Yield the functions and classes of other files that a definition uses, the longest ones, in the order of use.

    Args:
        found: The definition; of a class, the methods that do its work.
        index: Facts about all files of the project.
    """
    functions: Sequence[Function] = [found] if isinstance(found, Function) else _own_work(found, index)
    used: dict[Class | Function, None] = {}
    for function in functions:
        for call in function.calls:
            made = index.class_called(call.node, function)
            # A layer that runs stands for its class.
            called = [
                callee.owner if callee.name == "forward" and callee.owner else callee for callee in index.callees(call)
            ]
            used |= dict.fromkeys([made] if made is not None else called)
    lineage = index.lineage(found).classes if isinstance(found, Class) else ()
    others = [each for each in used if _is_elsewhere(each, found) and _owner(each) not in lineage]
    longest = sorted(others, key=lambda each: -length_of(each))[:_MOST_USED]
    yield from (_summary(each, index) for each in others if each in longest)


def _own_work(owner: Class, index: ProjectIndex) -> list[Function]:
    entry = inherited_entry(owner, index) or main_method(owner, index)
    path = list(path_of_calls(entry, owner, index)) if entry is not None else []
    return [each for each in path if each.owner is owner] or path


def _is_elsewhere(used: Class | Function, user: Class | Function) -> bool:
    return used.file is not user.file and used.file.purpose is Purpose.CODE


def _owner(found: Class | Function) -> Class | None:
    return found if isinstance(found, Class) else found.owner


def _summary(found: Class | Function, index: ProjectIndex) -> Fact:
    """Return what a definition does, in one line."""
    function = main_method(found, index) if isinstance(found, Class) else found
    name = f"`{found.name}`" if isinstance(found, Class) else f"`{signature_of(found)}`"
    steps = list(flow_of(function, index, 1)) if function is not None else []
    does = purpose_of_node(found.node) or (steps[-1].text if steps else "")
    return described(found.file, getattr(found.node, "lineno", 1), f"used: {name}{f': {does}' if does else ''}")
