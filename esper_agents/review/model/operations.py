"""Operators and subscripts on abstract values, and the truth of tests."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.review.model import saved_tensors
from esper_agents.review.model.call_site import CallSite
from esper_agents.review.model.events import EventKind, GradMode
from esper_agents.review.model.heap import ELEMENTS, ITEMS
from esper_agents.review.model.knowledge import ResultKind
from esper_agents.review.model.values import (
    NONE,
    NUMBER,
    TEXT,
    UNKNOWN,
    BoundMethod,
    ClassValue,
    Constant,
    Data,
    FunctionValue,
    Library,
    Namespace,
    Partial,
    Ref,
    Union,
    Value,
    alternatives,
    constant,
    join,
    joined,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.heap import HeapObject
    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.model.ir import Op, SourcePosition

_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
}
_LARGEST = 1 << 40
_KNOWN = (FunctionValue, ClassValue, Library, BoundMethod, Namespace, Partial)


def decided(interpreter: Interpreter, value: Value) -> bool | None:
    """Return whether a test holds, None if that is unknown."""
    if isinstance(value, Constant):
        return bool(value.value)
    if isinstance(value, _KNOWN):
        return True
    if isinstance(value, Ref):
        held = interpreter.heap[value]
        if held.container:
            items = held.fields.get(ITEMS)
            return bool(items) if items is not None and not interpreter.loops else None
        return True if held.kind is not ResultKind.UNKNOWN or held.cls is not None else None
    if isinstance(value, Union):
        truths = {decided(interpreter, each) for each in value.values}
        return truths.pop() if len(truths) == 1 else None
    return None


def operate(interpreter: Interpreter, frame: Frame, ins: Op, operands: Sequence[Value]) -> Value:
    """Return the result of an operator."""
    kind = ins.kind
    if kind in {"binary", "augmented"}:
        return _arithmetic(interpreter, frame, ins, operands)
    if kind == "compare":
        return _compared(interpreter, ins, operands)
    if kind in {"and", "or"}:
        return _chosen(interpreter, kind, operands)
    if kind in {"not", "unary"}:
        return _unary(interpreter, ins, operands)
    if kind == "text":
        for operand in operands:
            data = interpreter.data_of(operand)
            if data.kind is ResultKind.TENSOR:
                interpreter.event(
                    EventKind.FETCH, ins.at, frame, sources=data.sources, graph=data.graph, name="format", text=""
                )
        return _formatted(ins.name, operands)
    return Data(ResultKind.NUMBER)


def _formatted(template: str, operands: Sequence[Value]) -> Value:
    """Return a formatted string, if all its values are known text or whole numbers."""
    known = [each.value for each in operands if isinstance(each, Constant) and isinstance(each.value, str | int)]
    if not template or len(known) < len(operands):
        return TEXT
    pieces = template.split("\0")
    return constant("".join(f"{piece}{value}" for piece, value in zip(pieces, [*known, ""], strict=True)))


def _unary(interpreter: Interpreter, ins: Op, operands: Sequence[Value]) -> Value:
    value = operands[0]
    if ins.kind == "not":
        truth = decided(interpreter, value)
        return constant(not truth) if truth is not None else NUMBER
    if isinstance(value, Constant) and isinstance(value.value, int | float) and ins.name == "USub":
        return constant(-value.value)
    return _computed(interpreter, operands)


def _computed(interpreter: Interpreter, operands: Sequence[Value]) -> Data:
    """Return the result of arithmetic: a tensor if one operand is, with the graphs of all."""
    kinds = set()
    sources = graph = surely = 0
    certain = True
    for operand in operands:
        data = interpreter.data_of(operand)
        kinds.add(data.kind)
        sources |= data.sources
        graph |= data.graph
        surely |= data.surely
    # One operand whose graph is certain is enough.
    with_graph = [interpreter.data_of(each) for each in operands]
    if graph:
        certain = any(each.graph and each.graph_certain for each in with_graph)
    kind = (
        ResultKind.TENSOR
        if ResultKind.TENSOR in kinds
        else ResultKind.NUMBER
        if kinds <= {ResultKind.NUMBER}
        else ResultKind.UNKNOWN
    )
    if interpreter.grad is GradMode.OFF:
        graph = 0
    return Data(kind, sources, graph, certain, graph & ~surely)


def _arithmetic(interpreter: Interpreter, frame: Frame, ins: Op, operands: Sequence[Value]) -> Value:
    left, right = operands[0], operands[1]
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _folded(ins.name, left, right) or NUMBER
    if isinstance(left, Ref) and interpreter.heap[left].container in {"list", "tuple"} and ins.name == "Add":
        if ins.kind == "augmented" and interpreter.heap[left].container == "list":
            interpreter.attributes.extend(left, right, CallSite(frame, ins.at))
            return left
        return interpreter.attributes.concatenated(frame, left, right, ins.at)
    result = _computed(interpreter, operands)
    if ins.name == "Mult" and interpreter.log_probabilities & result.sources and result.graph:
        result = _weighed(interpreter, frame, ins, operands, result)
    return saved_tensors.computed(interpreter, frame, ins, operands, result)


def _weighed(interpreter: Interpreter, frame: Frame, ins: Op, operands: Sequence[Value], result: Data) -> Data:
    """Log what a log-probability is multiplied by, if that holds a graph; return the product with the event."""
    first, second = (interpreter.data_of(each) for each in operands[:2])
    is_first, is_second = (bool(each.sources & interpreter.log_probabilities) for each in (first, second))
    weight = second if is_first else first
    if is_first is is_second or not weight.graph:
        return result
    event = interpreter.event(
        EventKind.WEIGHT, ins.at, frame, sources=weight.sources, graph=weight.graph, maybe=weight.maybe
    )
    return replace(result, sources=result.sources | event.bit)


def _folded(name: str, left: Constant, right: Constant) -> Constant | None:
    function = _FOLDED.get(name)
    if function is None:
        return None
    is_text = isinstance(left.value, str) and isinstance(right.value, str) and name in {"Add", "Eq", "NotEq"}
    is_number = all(isinstance(each.value, int | float) and abs(each.value) < _LARGEST for each in (left, right))
    if not is_text and not is_number and name not in {"Eq", "NotEq"}:
        return None
    try:
        return constant(function(left.value, right.value))
    except (ArithmeticError, TypeError, ValueError):
        return None


def _compared(interpreter: Interpreter, ins: Op, operands: Sequence[Value]) -> Value:
    left, right = operands[0], operands[-1]
    if ins.name in {"Is", "IsNot"} and right == NONE:
        is_none = _is_none(interpreter, left)
        return NUMBER if is_none is None else constant(is_none == (ins.name == "Is"))
    if isinstance(left, Constant) and isinstance(right, Constant) and ins.name in _FOLDED:
        return _folded(ins.name, left, right) or NUMBER
    if ins.name in {"In", "NotIn"} and isinstance(left, Constant) and isinstance(right, Ref):
        items = interpreter.heap[right].fields.get(ITEMS)
        if items is not None and all(isinstance(each, Constant) for each in items):
            return constant((left in items) == (ins.name == "In"))
    data = _computed(interpreter, operands)
    return Data(data.kind, data.sources)


def _is_none(interpreter: Interpreter, value: Value) -> bool | None:
    if isinstance(value, Constant):
        return value.value is None
    if isinstance(value, Union):
        answers = {_is_none(interpreter, each) for each in value.values}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(value, Ref):
        held = interpreter.heap[value]
        is_known = held.container or held.cls is not None or held.kind is not ResultKind.UNKNOWN
        return False if is_known else None
    if isinstance(value, Data):
        return False if value.kind is not ResultKind.UNKNOWN else None
    return False


def _chosen(interpreter: Interpreter, kind: str, operands: Sequence[Value]) -> Value:
    """Return the value of `and` or `or`."""
    result: Value | None = None
    for operand in operands[:-1]:
        truth = decided(interpreter, operand)
        if truth is (kind == "or"):
            return operand if result is None else join(result, operand)
        if truth is None:
            result = operand if result is None else join(result, operand)
    return operands[-1] if result is None else join(result, operands[-1])


def subscripted(interpreter: Interpreter, frame: Frame, value: Value, index: Value, at: SourcePosition) -> Value:
    """Return an element of a value."""
    if isinstance(value, Union):
        found: Value | None = None
        for each in value.values:
            part = subscripted(interpreter, frame, each, index, at)
            found = part if found is None else join(found, part)
        return found if found is not None else UNKNOWN
    if not isinstance(value, Ref):
        data = interpreter.data_of(value)
        graph = 0 if interpreter.grad is GradMode.OFF and data.kind is ResultKind.TENSOR else data.graph
        kind = data.kind if data.kind is ResultKind.TENSOR else ResultKind.UNKNOWN
        return Data(kind, data.sources, graph, maybe=data.maybe & graph)
    held = interpreter.heap[value]
    item = _known_item(interpreter, frame, held, index, at)
    if item is not None:
        return item
    if held.cls is not None and (method := interpreter.attributes.method_of(value, "__getitem__")) is not None:
        return interpreter.calls.apply(method, CallSite(frame, at, [index]))
    return _any_item(interpreter, frame, value, at)


def _known_item(
    interpreter: Interpreter, frame: Frame, held: HeapObject, index: Value, at: SourcePosition
) -> Value | None:
    """Return the element at a constant index; a new object for something that comes from outside."""
    if not isinstance(index, Constant):
        return None
    key = f"[{index.value!r}]"
    if key in held.fields:
        found: Value = held.fields[key]
        return found
    items = held.fields.get(ITEMS)
    if items and isinstance(index.value, int) and -len(items) <= index.value < len(items):
        item: Value = items[index.value]
        return item
    if held.container or held.cls is not None:
        return None
    child = interpreter.part(frame, at, held, f"{held.path}{key}")
    interpreter.heap.write(held.fields, key, child)
    return child


def _any_item(interpreter: Interpreter, frame: Frame, value: Ref, at: SourcePosition) -> Value:
    held = interpreter.heap[value]
    parts = [*(held.fields.get(ITEMS) or ())]
    parts += [held.fields[ELEMENTS]] if ELEMENTS in held.fields else []
    parts += [each for key, each in held.fields.items() if key.startswith("[")]
    if held.kind is ResultKind.LAYERS or held.kind is ResultKind.MODULE:
        parts += [each for key, each in held.fields.items() if key[0].isdigit()]
    found: Value | None = None
    for part in parts:
        found = part if found is None else join(found, part)
    if found is None or not alternatives(found):
        return interpreter.opaque(
            frame, at, f"{held.path}[]", sources=held.sources, graph=held.graph, is_open=held.is_open
        )
    return found


def unpacked(run: Interpreter, frame: Frame, value: Value, count: int, star: int) -> list[Value]:
    """Return the parts of a value that is unpacked into so many targets."""
    if isinstance(value, Union):
        known = [unpacked(run, frame, each, count, star) for each in value.values]
        return [joined([parts[place] for parts in known]) for place in range(count)]
    held = run.heap[value] if isinstance(value, Ref) else None
    if held is not None:
        items = held.fields.get(ITEMS)
        if items is not None and star < 0 and len(items) == count:
            return list(items)
        if held.container and (items or ELEMENTS in held.fields):
            element = run.attributes.any_element(frame, value, frame.code.start)
            return [element] * count
        parts: list[Value] = []
        for place in range(count):
            key = f"[{place}]"
            if key not in held.fields:
                child = run.part(frame, held.at or frame.code.start, held, f"{held.path}{key}")
                run.heap.write(held.fields, key, child)
            parts.append(held.fields[key])
        return parts
    data = run.data_of(value)
    return [Data(data.kind, data.sources, data.graph, data.graph_certain, data.maybe)] * count
