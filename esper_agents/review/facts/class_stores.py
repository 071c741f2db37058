"""Containers that objects of a named class fill: what bounds them, what removes from them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery, InspectionSubject
from esper_agents.review.names import dotted, tail_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Class, FileTables, Function

_GROWTH, _PEAK = "memory growth", "memory"
_ADDING = frozenset({"append", "appendleft", "extend", "add", "put", "insert", "setdefault"})
_REMOVING = frozenset({"pop", "popleft", "popitem", "clear", "remove", "discard", "get_nowait"})
_CONTAINERS = frozenset({"list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Queue", "Counter"})
_SMALL = 10_000
# What a method of such a name puts into a container stood in a file before.
_RESTORES = re.compile(r"__init__$|__setstate__$|_?(?:load|restore|from|deserialize)")
_BOUNDS = ("maxlen", "maxsize", "max_size", "max_len", "capacity", "size", "limit")


class ClassStores(FactQuery):
    """Containers that a named class fills, call by call, with what bounds them."""

    name = "class-stores"
    topics = (_GROWTH, _PEAK)
    claim = "the objects of the class keep more with every call"
    refutes = False
    category = Category.MEMORY
    unseen = "the size of one entry, and how many are added"
    bad = (
        "from collections import deque\n\n\nclass Buffer:\n    def __init__(self, capacity=None):\n"
        "        self.memory = deque(maxlen=capacity)\n\n    def add(self, item):\n        self.memory.append(item)\n"
    )
    good = (
        "class Buffer:\n    def __init__(self):\n        self.memory = []\n\n"
        "    def add(self, item):\n        self.memory.append(item)\n\n"
        "    def take(self):\n        return self.memory.pop()\n"
    )
    asked = InspectionSubject((_GROWTH,), symbols=("example.py:Buffer",))

    def answers(self, subject: InspectionSubject) -> bool:
        """Return whether the request names a definition."""
        return super().answers(subject) and bool(subject.symbols)

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the containers of the named classes and of their bases that something adds to."""
        named = {symbol.rpartition(":")[2].partition(".")[0] for symbol in subject.symbols}
        classes = [each for file in files for each in file.classes if each.name in named]
        # A bound that the request gives is not at its default.
        given = frozenset(size.rpartition("=")[0] for size in subject.sizes)
        for owner in dict.fromkeys(base for each in classes for base in index.lineage(each).classes):
            for path, assignments in owner.attributes.items():
                if path.startswith("self.") and "[" not in path and _is_container(assignments[0], index):
                    yield from self._store(owner, path, assignments, given)

    def _store(
        self, owner: Class, path: str, assignments: Sequence[Assignment], given: frozenset[str]
    ) -> Iterator[Fact]:
        made = assignments[0]
        adding = [each for each in _added(owner, path, made.value) if not _RESTORES.match(each.name)]
        if not adding or made.block.function.name != "__init__" or _removes(owner, path):
            return
        method = f"{owner.name}.{adding[0].name}"
        bound = _bound(made.value)
        file = made.block.function.file
        if bound is None:
            text = f"`{path}` gets an entry at every `{method}`, and nothing in `{owner.name}` removes one"
            yield self.fact(file, made.statement, Assessment.SHOULD_CHECK, text, "bound it, as by `deque(maxlen=...)`")
            return
        default = _default(bound, made)
        shown = ast.unparse(bound)
        if isinstance(default, ast.Constant) and default.value is None and shown not in given:
            text = (
                f"`{path}` gets an entry at every `{method}` and drops the oldest only beyond `{shown}`, whose default "
                "is None: then it keeps all of them"
            )
            yield self.fact(file, made.statement, Assessment.SHOULD_CHECK, text, f"give `{shown}` where it is made")
        else:
            known = f" (default {ast.unparse(default)})" if default is not None else ""
            text = f"`{path}` keeps up to `{shown}`{known} entries, one of each `{method}`"
            is_small = isinstance(bound, ast.Constant) and isinstance(bound.value, int) and bound.value <= _SMALL
            yield self.fact(file, made.statement, Assessment.FINE if is_small else Assessment.OPEN, text)


def _is_container(made: Assignment, index: ProjectIndex) -> bool:
    match made.value:
        case ast.List() | ast.Dict() | ast.Set():
            return True
        case ast.Call(func=func) if tail_of(dotted(func)) in _CONTAINERS:
            return True
        case ast.Call():
            owner = index.class_of(made.value, made.block.function, made.line)
            return owner is not None and bool(_ADDING & set(owner.methods)) and not index.is_module(owner)
        case _:
            return False


def _added(owner: Class, path: str, made: ast.expr) -> Iterator[Function]:
    """Yield the methods that add to a container; an item that is set adds only to a dictionary."""
    is_mapping = isinstance(made, ast.Dict) or (
        isinstance(made, ast.Call) and tail_of(dotted(made.func)) in {"dict", "defaultdict", "OrderedDict"}
    )
    for method in owner.methods.values():
        is_called = any(call.receiver == path and call.tail in _ADDING for call in method.calls)
        items = method.assignments.get(f"{path}[]", ()) if is_mapping else ()
        # An item that is set to an empty container is begun anew.
        if is_called or any(not _begins_anew(item.value, path) for item in items):
            yield method


def _removes(owner: Class, path: str) -> bool:
    for method in owner.methods.values():
        if any(call.receiver == path and call.tail in _REMOVING for call in method.calls):
            return True
        made_again = () if _RESTORES.match(method.name) else method.assignments.get(path, ())
        if any(_begins_anew(each.value, path) for each in made_again):
            return True
        deleted = (each for each in ast.walk(method.node) if isinstance(each, ast.Delete))
        if any(dotted(target).startswith(path) for each in deleted for target in each.targets):
            return True
    return False


def _begins_anew(value: ast.expr, path: str) -> bool:
    """Return whether a container is replaced by an empty one or a part of itself, and not by a loaded one."""
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Call(args=[], keywords=[]):
            return True
        case ast.Subscript(value=whole):
            return dotted(whole) == path
        case ast.ListComp(generators=[first, *_]) | ast.SetComp(generators=[first, *_]):
            return dotted(first.iter) == path
        case _:
            return False


def _bound(value: ast.expr) -> ast.expr | None:
    """Return the expression that bounds a container."""
    if not isinstance(value, ast.Call):
        return None
    said = {keyword.arg: keyword.value for keyword in value.keywords}
    found = next((said[name] for name in _BOUNDS if name in said), None)
    is_deque = tail_of(dotted(value.func)) == "deque" and len(value.args) > 1
    return value.args[1] if found is None and is_deque else found


def _default(bound: ast.expr, made: Assignment) -> ast.expr | None:
    """Return the default of the parameter that bounds a container; None if it has none."""
    arguments = getattr(made.block.function.node, "args", None)
    if arguments is None or not isinstance(bound, ast.Name):
        return None
    named = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip((each.arg for each in reversed(named)), reversed(arguments.defaults), strict=False))
    keyword = dict(zip((each.arg for each in arguments.kwonlyargs), arguments.kw_defaults, strict=True))
    return defaults.get(bound.id) or keyword.get(bound.id)
