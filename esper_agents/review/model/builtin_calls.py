"""Builtin functions of Python that the interpreter follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from esper_agents.review.model.call_site import CallSite
from esper_agents.review.model.events import EventKind
from esper_agents.review.model.generators import gather, mapped
from esper_agents.review.model.heap import BOUNDED, ELEMENTS, ITEMS
from esper_agents.review.model.knowledge import ResultKind
from esper_agents.review.model.library_calls import iterator_over
from esper_agents.review.model.values import (
    NONE,
    NUMBER,
    TEXT,
    UNKNOWN,
    ClassValue,
    Constant,
    Data,
    Library,
    Partial,
    Ref,
    Super,
    Value,
    constant,
    join,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.model.ir import SourcePosition

# Marks the default of a field that each instance makes for itself.
FACTORY = "#factory"

Handler: TypeAlias = "Callable[[Interpreter, Frame, Sequence[Value], Mapping[str, Value], SourcePosition], Value]"


def _number(run: Interpreter, frame: Frame, args: Sequence[Value], _: Mapping[str, Value], at: SourcePosition) -> Value:
    """`float(tensor)`, `int(tensor)`: the host waits for the value."""
    data = run.data_of(args[0]) if args else NUMBER
    if args and isinstance(args[0], Constant):
        return NUMBER
    if data.kind is not ResultKind.NUMBER and data.sources:
        run.event(EventKind.FETCH, at, frame, sources=data.sources, graph=data.graph, name="float", text="float")
    return Data(ResultKind.NUMBER, data.sources)


def _plain(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del frame, keywords, at
    sources = 0
    for each in args:
        sources |= run.data_of(each).sources
    return Data(ResultKind.NUMBER, sources)


def _nothing(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    for each in (*args, *keywords.values()):
        data = run.data_of(each)
        if data.kind is ResultKind.TENSOR:
            run.event(EventKind.FETCH, at, frame, sources=data.sources, graph=data.graph, name="print", text="print")
    return NONE


def _text(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del run, frame, args, keywords, at
    return TEXT


def _same(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords
    return iterator_over(run, frame, args[0], at) if args else UNKNOWN


def _enumerate(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords
    return iterator_over(run, frame, args[0], at, NUMBER) if args else UNKNOWN


def _zip(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords
    made = run.attributes.container(frame, "zip", at)
    fields = run.heap[made].fields
    fields["#zipped"] = tuple(args)
    fields["#over"] = args[0] if args else UNKNOWN
    return made


def _range(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del args, keywords
    return run.attributes.container(frame, "range", at)


def _list(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords
    if not args:
        return run.attributes.container(frame, "list", at, ())
    if isinstance(args[0], Ref) and run.heap[args[0]].container == "generator":
        gather(run, args[0], CallSite(frame, at))
        return args[0]
    if isinstance(args[0], Ref):
        held = run.heap[args[0]]
        if held.kind is not ResultKind.UNKNOWN or not held.container:
            return iterator_over(run, frame, args[0], at)
    made = run.attributes.container(frame, "list", at, ())
    run.attributes.extend(made, args[0], CallSite(frame, at))
    return made


def _deque(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    made = _list(run, frame, args[:1], {}, at)
    limit = args[1] if len(args) > 1 else keywords.get("maxlen", NONE)
    if limit != NONE and isinstance(made, Ref):
        run.heap[made].fields[BOUNDED] = True
    return made


def _dict(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    made = run.attributes.container(frame, "dict", at)
    fields = run.heap[made].fields
    if args:
        given = run.heap[args[0]] if isinstance(args[0], Ref) else None
        if given is not None and given.container == "dict":
            fields.update({key: each for key, each in given.fields.items() if key[0] == "[" or key == ELEMENTS})
        else:
            fields[ELEMENTS] = UNKNOWN
    fields.update({f"[{name!r}]": each for name, each in keywords.items()})
    return made


def _sum(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords
    if args:
        gather(run, args[0], CallSite(frame, at, text="sum"))
    data = run.data_of(args[0]) if args else NUMBER
    return Data(ResultKind.UNKNOWN, data.sources, data.graph, data.graph_certain, data.maybe)


def _getattr(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords
    if len(args) > 1 and isinstance(args[1], Constant) and isinstance(args[1].value, str):
        return run.attributes.get(frame, args[0], args[1].value, at)
    return UNKNOWN


def _setattr(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords
    if len(args) > 1 and args[1] == constant("grad"):
        run.event(EventKind.CLEAR_GRADIENTS, at, frame, text="setattr")
    if len(args) > 2 and isinstance(args[0], Ref) and isinstance(args[1], Constant):  # noqa: PLR2004 - the signature
        run.heap.write(run.heap[args[0]].fields, str(args[1].value), args[2])
    return NONE


def _super(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords, at
    receiver = frame.receiver
    cls = args[0] if args and isinstance(args[0], ClassValue) else None
    if receiver is None:
        return UNKNOWN
    if cls is None:
        cls = _class_around(run, frame, receiver)
    return Super(cls.cls, receiver) if cls is not None else UNKNOWN


def _class_around(run: Interpreter, frame: Frame, receiver: Value) -> ClassValue | None:
    held = run.heap[receiver] if isinstance(receiver, Ref) else None
    start = receiver if isinstance(receiver, ClassValue) else None
    if held is not None and held.cls is not None:
        start = ClassValue(held.cls)
    if start is None:
        return None
    found = [each for each in run.attributes.lineage(start) if each.cls.scope.code is _class_code(frame)]
    return found[0] if found else None


def _class_code(frame: Frame) -> object:
    scope = frame.scope.outer
    return scope.code if scope is not None else None


def _isinstance(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del frame, keywords, at
    if len(args) < 2:  # noqa: PLR2004 - the signature
        return NUMBER
    answer = _is_instance(run, args[0], args[1])
    return NUMBER if answer is None else constant(answer)


def _is_instance(run: Interpreter, value: Value, cls: Value) -> bool | None:
    if isinstance(cls, Library):
        kinds = {"builtins.str": "str", "builtins.int": "int", "builtins.float": "float", "builtins.bool": "bool"}
        if isinstance(value, Constant) and cls.path in kinds:
            return value.type_name == kinds[cls.path]
        if isinstance(value, Ref) and run.heap[value].container in {"list", "tuple", "dict"}:
            return cls.path == f"builtins.{run.heap[value].container}"
    if isinstance(value, Ref) and isinstance(cls, ClassValue) and run.heap[value].cls is not None:
        lineage = run.attributes.lineage(ClassValue(run.heap[value].cls))  # type: ignore[arg-type]
        return True if any(each.cls is cls.cls for each in lineage) else None
    return None


def _partial(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del run, frame, at
    return Partial(args[0], tuple(args[1:]), tuple(keywords.items())) if args else UNKNOWN


def _map(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    """`map(function, values)`: a loop over the values."""
    del keywords
    if len(args) < 2:  # noqa: PLR2004 - the signature
        return run.attributes.container(frame, "list", at)
    return mapped(run, frame, args[0], args[1:], at)


def _filter(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    """`filter(function, values)`: a loop that keeps elements."""
    if len(args) > 1 and args[0] != NONE:
        mapped(run, frame, args[0], args[1:2], at)
    return _same(run, frame, args[1:], keywords, at)


def _field(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    """`dataclasses.field(...)`: the default, or what makes it for each instance."""
    del run, frame, args, at
    factory = keywords.get("default_factory")
    return Partial(factory, (), ((FACTORY, NONE),)) if factory is not None else keywords.get("default", UNKNOWN)


def _next(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords
    return run.attributes.any_element(frame, args[0], at) if args else UNKNOWN


def _type(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del frame, keywords, at
    held = run.heap[args[0]] if args and isinstance(args[0], Ref) else None
    return ClassValue(held.cls) if held is not None and held.cls is not None else UNKNOWN


def _vars(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del run, frame, args, keywords, at
    return UNKNOWN


def _largest(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del frame, keywords, at
    result: Value = NUMBER
    for place, each in enumerate(args):
        data = run.data_of(each)
        value = Data(data.kind, data.sources, data.graph, data.graph_certain, data.maybe)
        result = value if not place else join(result, value)
    return result


def _length(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del frame, keywords, at
    held = run.heap[args[0]] if args and isinstance(args[0], Ref) else None
    items = held.fields.get(ITEMS) if held is not None and held.container == "tuple" else None
    return constant(len(items)) if items is not None else NUMBER


def _deep_copy(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    """`copy.deepcopy(value)`: a new object with copies of what it holds."""
    del frame, keywords, at
    return _copied(run, args[0], {}) if args else UNKNOWN


def _copied(run: Interpreter, value: Value, copies: dict[int, Ref]) -> Value:
    if not isinstance(value, Ref):
        return value
    if value.ident in copies:
        return copies[value.ident]
    held = run.heap[value]
    made = run.heap.new(
        held.kind,
        cls=held.cls,
        library=held.library,
        facts=held.facts,
        sources=held.sources,
        graph=held.graph,
        birth=len(run.events),
        at=held.at,
        code=held.code,
        path=held.path,
        is_open=held.is_open,
        container=held.container,
        loop_depth=len(run.loops),
        evidence=set(held.evidence),
    )
    ref = copies[value.ident] = Ref(made.ident)
    made.fields.update(
        {
            key: tuple(_copied(run, each, copies) for each in part)
            if isinstance(part, tuple)
            else _copied(run, part, copies)
            for key, part in held.fields.items()
        }
    )
    return ref


def _from_keys(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    made = run.attributes.container(frame, "dict", at)
    run.heap[made].fields[ELEMENTS] = args[1] if len(args) > 1 else NONE
    del keywords
    return made


def _default_dict(
    run: Interpreter, frame: Frame, args: Sequence[Value], keywords: Mapping[str, Value], at: SourcePosition
) -> Value:
    del keywords
    made = run.attributes.container(frame, "dict", at)
    if args:
        run.heap[made].fields[ELEMENTS] = run.calls.apply(args[0], CallSite(frame, at))
    return made


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("builtins.float", "builtins.int", "builtins.bool", "builtins.complex"), _number),
    **dict.fromkeys(("builtins.abs", "builtins.round", "builtins.hash", "builtins.id", "builtins.hasattr"), _plain),
    **dict.fromkeys(("builtins.callable", "builtins.any", "builtins.all", "builtins.issubclass"), _plain),
    **dict.fromkeys(("builtins.str", "builtins.repr", "builtins.format", "builtins.input"), _text),
    **dict.fromkeys(("builtins.sorted", "builtins.reversed", "builtins.iter", "itertools.islice"), _same),
    **dict.fromkeys(("itertools.cycle", "itertools.chain", "copy.copy"), _same),
    **dict.fromkeys(("builtins.list", "builtins.tuple", "builtins.set"), _list),
    "collections.deque": _deque,
    **dict.fromkeys(("builtins.dict", "collections.OrderedDict", "types.SimpleNamespace"), _dict),
    **dict.fromkeys(("builtins.max", "builtins.min"), _largest),
    **dict.fromkeys(("builtins.vars", "builtins.globals", "builtins.locals"), _vars),
    "builtins.dict.fromkeys": _from_keys,
    "collections.defaultdict": _default_dict,
    "copy.deepcopy": _deep_copy,
    "builtins.print": _nothing,
    "builtins.len": _length,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.range": _range,
    "builtins.sum": _sum,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.super": _super,
    "builtins.isinstance": _isinstance,
    "functools.partial": _partial,
    "builtins.map": _map,
    "builtins.filter": _filter,
    **dict.fromkeys(("dataclasses.field", "attrs.field", "attr.field", "pydantic.Field"), _field),
    "builtins.next": _next,
    "builtins.type": _type,
}
