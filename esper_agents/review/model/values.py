"""Abstract values: data with its sources, references to heap objects, functions, classes, unions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.review.model.knowledge import ResultKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.model.events import GradMode
    from esper_agents.review.model.heap import ClassObject, NameScope
    from esper_agents.review.model.ir import Code
    from esper_agents.review.model.knowledge import CallFacts, GradEffect
    from esper_agents.review.tables import FileTables

# A union of more values than this is unknown data.
MOST_ALTERNATIVES = 6


@dataclass(frozen=True, slots=True)
class Data:
    """A tensor, number or unknown datum.

    Attributes:
        kind: Its kind; UNKNOWN is data of any kind.
        sources: Events that it was computed from, as a bit set.
        graph: Events through which it holds an autograd graph, as a bit set; 0 is no graph.
        graph_certain: Whether the graph is there on all joined paths.
        maybe: Events of the graph that are not in it on all joined paths, as a bit set.
        storage: Number of its storage, which views share; 0 if it is not known.
    """

    kind: ResultKind = ResultKind.UNKNOWN
    sources: int = 0
    graph: int = 0
    graph_certain: bool = True
    maybe: int = 0
    storage: int = 0

    @property
    def surely(self) -> int:
        """Events of the graph that are in it on all joined paths, as a bit set."""
        return self.graph & ~self.maybe


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant; the type keeps `1`, `1.0` and `True` apart."""

    value: object
    type_name: str


@dataclass(frozen=True, slots=True)
class Ref:
    """Reference to a heap object."""

    ident: int


@dataclass(frozen=True, slots=True)
class Library:
    """Something of a library or a builtin, by qualified name."""

    path: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """A module of the project."""

    file: FileTables


@dataclass(frozen=True, slots=True)
class FunctionValue:
    """A function of the project with its closure, bound receiver, and grad mode of its decorators."""

    code: Code
    scope: NameScope
    defaults: tuple[tuple[str, Value], ...] = ()
    receiver: Value | None = None
    grad: GradEffect | None = None
    grad_argument: Value | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ClassValue:
    """A class of the project."""

    cls: ClassObject


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A method of a value that no project code defines."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class Partial:
    """A callable with arguments bound in advance."""

    callee: Value
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Super:
    """`super()`: methods of the bases of a class, on a receiver."""

    cls: ClassObject
    receiver: Value


@dataclass(frozen=True, slots=True)
class Context:
    """A library's context manager with the arguments it was made with."""

    facts: CallFacts
    argument: Value | None
    before: GradMode | None = None


@dataclass(frozen=True, slots=True)
class Union:
    """One of several values."""

    values: tuple[Value, ...]


Value: TypeAlias = (
    Data
    | Constant
    | Ref
    | Library
    | Namespace
    | FunctionValue
    | ClassValue
    | BoundMethod
    | Partial
    | Super
    | Context
    | Union
)

UNKNOWN = Data()
NUMBER = Data(ResultKind.NUMBER)
TEXT = Data(ResultKind.TEXT)


def constant(value: object) -> Constant:
    """Return a constant as a value."""
    return Constant(value, type(value).__name__)


NONE = constant(None)


def alternatives(value: Value) -> tuple[Value, ...]:
    """Return the members of a union, or the value itself."""
    return value.values if isinstance(value, Union) else (value,)


def join(first: Value, second: Value) -> Value:
    """Return the value that covers both."""
    if first is second or first == second:
        return first
    if isinstance(first, Data) and isinstance(second, Data):
        return join_data(first, second)
    members: dict[Value, None] = {}
    data: Data | None = None
    for each in (*alternatives(first), *alternatives(second)):
        if isinstance(each, Data):
            data = each if data is None else join_data(data, each)
        else:
            members[each] = None
    values = (*members, *((data,) if data is not None else ()))
    if len(values) > MOST_ALTERNATIVES:
        return data if data is not None else UNKNOWN
    return values[0] if len(values) == 1 else Union(values)


def joined(parts: Sequence[Value]) -> Value:
    """Return the value that covers all parts; there is at least one."""
    result = parts[0]
    for part in parts[1:]:
        result = join(result, part)
    return result


def join_data(first: Data, second: Data) -> Data:
    """Return the data that covers both: sources of either, a certain graph only if both have one."""
    kind = first.kind if first.kind is second.kind else ResultKind.UNKNOWN
    certain = first.graph_certain and second.graph_certain and bool(first.graph) == bool(second.graph)
    graph = first.graph | second.graph
    storage = first.storage if first.storage == second.storage else 0
    return Data(kind, first.sources | second.sources, graph, certain, graph & ~(first.surely & second.surely), storage)
