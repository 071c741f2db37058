"""Heap of the interpreter: objects by identity, scopes, and a trail that undoes writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.review.model.values import Ref, Value, join

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.review.model.ir import Code, SourcePosition
    from esper_agents.review.model.knowledge import CallFacts, ResultKind
    from esper_agents.review.tables import FileTables

# Fields of the analysis; a field of the program never starts like this.
MODE = "#mode"
ELEMENTS = "#elements"
ITEMS = "#items"
# Of a container that drops its oldest elements.
BOUNDED = "#bounded"
# Of an instance that is its fields and nothing else, such as a data class.
RECORD = "#record"

_MISSING: Any = object()


class Mode(StrEnum):
    """Mode of a module."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ModeSetting:
    """Mode with the event that set it; -1 for the initial mode."""

    mode: Mode
    event: int = -1


# Modes that are possible, with who set them.
Modes: TypeAlias = frozenset[ModeSetting]
UNKNOWN_MODE: Modes = frozenset({ModeSetting(Mode.UNKNOWN)})
INITIAL_TRAINING: Modes = frozenset({ModeSetting(Mode.TRAINING)})
INITIAL_EVALUATION: Modes = frozenset({ModeSetting(Mode.EVALUATION)})


@dataclass(slots=True, eq=False)
class ClassObject:
    """A class of the project.

    Attributes:
        name: Its name.
        file: Its file.
        bases: Values of its bases.
        scope: What its body binds.
        code: Its body.
        open_instance: An instance whose arguments are unknown, made once.
    """

    name: str
    file: FileTables
    bases: tuple[Value, ...]
    scope: NameScope
    code: Code
    open_instance: Ref | None = None


@dataclass(slots=True, eq=False)
class NameScope:
    """Variables of a function call, class body or module, with the scope around them."""

    code: Code
    outer: NameScope | None
    names: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class HeapObject:
    """An object with identity.

    Attributes:
        ident: Its number.
        kind: Its kind; UNKNOWN for what comes from outside.
        cls: Its class, if the project has it.
        library: Qualified name of its class or constructor, if a library has it.
        facts: Facts about the constructor, if known.
        sources, graph: Events that it was computed from, for a result of unknown kind.
        birth: Number of events when it was made.
        at, code: Where it was made.
        path: How it is reached, for messages: `self.model`.
        is_open: Whether it comes from unknown callers.
        container: `list`, `tuple`, `set`, `dict`, `iterator`, `range`; empty for other objects.
        loop_depth: Number of loops around its making.
        evidence: Kinds that uses prove; only grows.
        fields: Attributes of the program and fields of the analysis.
    """

    ident: int
    kind: ResultKind
    cls: ClassObject | None = None
    library: str = ""
    facts: CallFacts | None = None
    sources: int = 0
    graph: int = 0
    birth: int = 0
    at: SourcePosition | None = None
    code: Code | None = None
    path: str = ""
    is_open: bool = False
    container: str = ""
    loop_depth: int = 0
    evidence: set[ResultKind] = field(default_factory=set)
    fields: dict[str, Any] = field(default_factory=dict)


Changes: TypeAlias = dict[tuple[int, str], tuple[dict[str, Any], Any]]


class Heap:
    """Objects, and the trail of all writes to them and to scopes."""

    def __init__(self) -> None:
        self.objects: list[HeapObject] = []
        self._trail: list[tuple[dict[str, Any], str, Any]] = []

    def new(self, kind: ResultKind, **facts: Any) -> HeapObject:
        """Return a new object."""
        made = HeapObject(len(self.objects), kind, **facts)
        self.objects.append(made)
        return made

    def close(self) -> None:
        """Drop all objects."""
        self._trail.clear()
        for held in self.objects:
            held.fields.clear()
            held.cls = None
        self.objects.clear()

    def __getitem__(self, ref: Ref) -> HeapObject:
        return self.objects[ref.ident]

    def write(self, where: dict[str, Any], key: str, value: Any) -> None:
        """Write a field or variable so that it can be undone."""
        old = where.get(key, _MISSING)
        if old is not value:
            self._trail.append((where, key, old))
            where[key] = value

    def mark(self) -> int:
        """Return the place in the trail to undo to."""
        return len(self._trail)

    def changes(self, mark: int) -> Changes:
        """Return what was written since a mark, with present values."""
        found: Changes = {}
        for where, key, _ in self._trail[mark:]:
            place = (id(where), key)
            if place not in found:
                found[place] = (where, where.get(key, _MISSING))
        return found

    def undo(self, mark: int) -> None:
        """Undo all writes since a mark."""
        trail = self._trail
        while len(trail) > mark:
            where, key, old = trail.pop()
            if old is _MISSING:
                where.pop(key, None)
            else:
                where[key] = old

    def merge(self, ends: Iterable[Changes]) -> None:
        """Write the join of several ends of paths that began in the present state."""
        paths = list(ends)
        if len(paths) == 1:
            for (_, key), (where, value) in paths[0].items():
                self._put(where, key, value)
            return
        places = {place: where for path in paths for place, (where, _) in path.items()}
        for place, where in places.items():
            key = place[1]
            base = where.get(key, _MISSING)
            values = [path[place][1] if place in path else base for path in paths]
            self._put(where, key, _joined(key, values))

    def _put(self, where: dict[str, Any], key: str, value: Any) -> None:
        if value is not _MISSING:
            self.write(where, key, value)
        elif key in where:
            self._trail.append((where, key, where.pop(key)))


def _joined(key: str, values: list[Any]) -> Any:
    known = [value for value in values if value is not _MISSING]
    if not known:
        return _MISSING
    result = known[0]
    for value in known[1:]:
        if value is result:
            continue
        if key == MODE:
            result = result | value
        elif key == ITEMS:
            result = None
        else:
            result = join(result, value)
    if len(known) == len(values):
        return result
    return result | UNKNOWN_MODE if key == MODE else None if key == ITEMS else result
