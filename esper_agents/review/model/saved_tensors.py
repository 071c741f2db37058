"""Tensors that autograd keeps for a backward, and writes that change them before it.

Each result of an operator has the number of its storage, which views share. What an operator keeps is noted under that
number until the next backward.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from esper_agents.review.model.events import EventKind, GradMode
from esper_agents.review.model.knowledge import ResultKind
from esper_agents.review.model.operators import DATA
from esper_agents.review.model.values import Constant, Data, Ref, Value, alternatives, constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.model.call_site import CallSite
    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.heap import HeapObject
    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.model.ir import Op, SourcePosition
    from esper_agents.review.model.knowledge import CallFacts

# Operators that keep an operand for the gradient of the other.
_PRODUCTS = {
    "Mult": "*",
    "MatMult": "@",
    "mul": "mul",
    "matmul": "matmul",
    "bmm": "bmm",
    "mm": "mm",
    "multiply": "multiply",
}
_INPLACE = "#inplace"


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """A tensor that an operator keeps for the next backward.

    Attributes:
        name: The operator.
        line, path: Where it is called.
        graph: Events whose gradients need the tensor.
        backwards: Number of backwards before it.
        is_conditional: Whether a branch inside its function decides about it.
    """

    name: str
    line: int
    path: str
    graph: int
    backwards: int
    is_conditional: bool


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, list[str]]]:
    table: dict[str, dict[str, list[str]]] = tomllib.loads((DATA / "saved_tensors.toml").read_text(encoding="utf-8"))
    return table


@lru_cache(maxsize=512)
def kept_by(section: str, name: str) -> str:
    """Return what an operator keeps for its backward: `result`, `input`, or nothing that is known.

    Args:
        section: `functions` or `layers`.
        name: Last part of its name.
    """
    return next((what for what, names in _table()[section].items() if name in names), "")


def storage_of(value: Value) -> int:
    """Return the number of the storage of a tensor, 0 if it is not known."""
    if isinstance(value, Ref):
        return -value.ident - 1
    return value.storage if isinstance(value, Data) else 0


def computed(run: Interpreter, frame: Frame, ins: Op, operands: Sequence[Value], result: Data) -> Data:
    """Return the result of an arithmetic operator with its storage, and note what the operator keeps or writes."""
    left, right = operands[0], operands[1]
    is_written = ins.kind == "augmented" and run.data_of(left).kind is not ResultKind.NUMBER
    if is_written:
        overwrite(run, frame, ins.at, left, "")
        result = replace(result, storage=storage_of(left) if len(alternatives(left)) == 1 else 0)
    else:
        result = replace(result, storage=run.new_storage())
    if ins.name in _PRODUCTS and run.grad is not GradMode.OFF:
        _keep_product(run, frame, ins.at, _PRODUCTS[ins.name], (left, right), is_written=is_written)
    return result


def called(run: Interpreter, name: str, facts: CallFacts, site: CallSite, result: Value, *, is_method: bool) -> Value:
    """Return the result of a call of torch with its storage, and note what the operator keeps or writes."""
    args, tail = site.args, name.rpartition(".")[2]
    if not args or not (is_method or name.startswith("torch.")) or not isinstance(result, Data):
        return result
    writes = tail.endswith("_") and -1 in facts.writes if is_method else _is_on(site.keywords.get("inplace"))
    if writes:
        overwrite(run, site.frame, site.at, args[0], site.text)
        result = replace(result, storage=storage_of(args[0]))
    elif facts.alias == "always":
        result = replace(result, storage=storage_of(args[0]))
    elif not facts.alias and "inplace" not in site.keywords:
        result = replace(result, storage=run.new_storage())
    if result.surely:
        plain = tail.rstrip("_")
        what = kept_by("functions", plain)
        if what == "result" or (what == "input" and not writes):
            _keep(run, site.frame, site.at, plain, result if what == "result" else args[0], graph=result.graph)
        elif plain in _PRODUCTS and len(args) > 1:
            _keep_product(run, site.frame, site.at, plain, (args[0], args[1]), is_written=writes)
    return result


def applied(run: Interpreter, layer: HeapObject, site: CallSite, result: Data) -> Data:
    """Return the result of a layer of torch with its storage, and note what the layer keeps or writes."""
    name = layer.library.rpartition(".")[2]
    if not layer.library.startswith("torch.nn.") or not site.args:
        return result
    inplace = layer.fields.get(_INPLACE)
    if _is_on(inplace):
        overwrite(run, site.frame, site.at, site.args[0], site.text)
        result = replace(result, storage=storage_of(site.args[0]))
    elif inplace is None and name not in {"Identity", "Flatten", "Unflatten"}:
        result = replace(result, storage=run.new_storage())
    what = kept_by("layers", name)
    if result.graph and what and not (what == "input" and inplace is not None):
        _keep(run, site.frame, site.at, name, result if what == "result" else site.args[0], graph=result.graph)
    return result


def note_inplace(layer: HeapObject, site: CallSite) -> None:
    """Note that a layer was made to write its input: `nn.ReLU(inplace=True)`, `nn.ReLU(True)`."""
    first = site.args[0] if site.args and site.args[0] in {constant(value=True), constant(value=False)} else None
    asked = site.keywords.get("inplace", first)
    if asked is not None and asked != constant(value=False):
        layer.fields[_INPLACE] = asked


def _is_on(value: object) -> bool:
    return value == constant(value=True)


def _keep_product(
    run: Interpreter, frame: Frame, at: SourcePosition, name: str, operands: tuple[Value, Value], *, is_written: bool
) -> None:
    left, right = operands
    if not is_written:
        _keep(run, frame, at, name, left, graph=run.data_of(right).surely)
    _keep(run, frame, at, name, right, graph=run.data_of(left).surely)


def _keep(run: Interpreter, frame: Frame, at: SourcePosition, name: str, value: Value, *, graph: int) -> None:
    """Note that an operator keeps a tensor for the gradient of values with a graph."""
    storage = storage_of(value)
    if storage and graph and run.grad is not GradMode.OFF:
        is_conditional = frame.arms > len(run.loops) - frame.loop_base
        record = KeptTensor(name, at.line, frame.code.file.path, graph, run.backwards, is_conditional)
        run.heap.write(run.saved, str(storage), Constant(record, "saved"))


def overwrite(run: Interpreter, frame: Frame, at: SourcePosition, value: Value, text: str) -> None:
    """Log that a tensor is written in place which an operator has kept for the next backward."""
    found = run.saved.get(str(storage_of(value)))
    kept = found.value if isinstance(found, Constant) else None
    if run.grad is GradMode.OFF or not isinstance(kept, KeptTensor):
        return
    is_conditional = frame.arms > len(run.loops) - frame.loop_base
    if kept.backwards == run.backwards and (is_conditional or not kept.is_conditional):
        where = f"line {kept.line}" if kept.path == frame.code.file.path else f"{kept.path}:{kept.line}"
        run.event(EventKind.OVERWRITE, at, frame, graph=kept.graph, name=f"{kept.name} ({where})", text=text)
