"""Effects of a step's non-finite numbers, their first origin, and its root cause."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from .result import NonfiniteCause, ReachedTensor
from .tensor_statistics import holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .operation_monitor import OperationMonitor
    from .origin import NonfiniteOrigin
    from .result import NonfiniteKind
    from .training_history import TrainingHistory

# Mechanisms that follow from a learning rate that is too high, or from a bad initialisation.
_OUT_OF_SCALE = frozenset(
    ("overflow", "half-overflow", "exp-overflow", "inf-minus-inf", "zero-times-inf", "inf-over-inf")
)
# Mechanisms that follow from an Inf from outside, without being at fault.
_FROM_INF = frozenset(("inf-minus-inf", "zero-times-inf", "inf-over-inf", "out-of-domain", "unclassified"))
_IN_NAME = {"input": "inputs", "parameter": "parameters", "buffer": "buffers", "optimizer state": "optimizer-state"}


@dataclass
class AffectedTensor:
    """Relevant tensor or object that holds NaN or Inf after a step.

    Attributes:
        what: `output`, `loss`, `gradient`, `parameter`, `buffer`, `optimizer state` or `exception`.
        name: Its name.
        holds: `nan` or `inf`.
        origins: Origins of these numbers, as far as observed.
    """

    what: str
    name: str
    holds: NonfiniteKind
    origins: tuple[NonfiniteOrigin, ...]

    def described(self) -> ReachedTensor:
        """Return it as stored in results."""
        return ReachedTensor(self.what, self.name, self.holds)


def inspect(watch: OperationMonitor, named: dict[str, Any], what: str) -> list[AffectedTensor]:
    """Return the named tensors and numbers that hold NaN or Inf."""
    found = []
    for name, thing in named.items():
        if isinstance(thing, torch.Tensor):
            held = holds(thing)
            if held:
                found.append(AffectedTensor(what, name, held, watch.marks.origins(thing)))
        elif isinstance(thing, (float, complex)) and not math.isfinite(abs(thing)):
            found.append(AffectedTensor(what, name, "nan" if cmath.isnan(thing) else "inf", tuple(watch.read[:8])))
    return found


def is_harmless(reached: list[AffectedTensor]) -> bool:
    """Return whether only outputs of many elements were reached, by intentional numbers."""
    return all(
        each.what == "output" and bool(each.origins) and all(_is_on_purpose(one) for one in each.origins)
        for each in reached
    )


def _is_on_purpose(origin: NonfiniteOrigin) -> bool:
    if origin.kind == "outside":
        # A mask created once and stored is a constant; a non-finite number in data or weights is not.
        kind = "" if origin.carrier is None else origin.carrier.kind
        return kind == "constant" or (origin.what == "inf" and kind in {"buffer", "tensor"})
    return origin.kind == "deliberate"


def first_of(
    reached: list[AffectedTensor], watch: OperationMonitor
) -> tuple[NonfiniteOrigin | None, NonfiniteOrigin | None]:
    """Return the first origin at fault for the affected tensors, and the place of a later change into NaN."""
    origins = sorted({one for each in reached for one in each.origins}, key=lambda one: one.order)
    if not origins:
        origins = [each for each in watch.born if not _is_on_purpose(each)][:1]
    at_fault = [(root, one) for one in origins for root in roots_of(one)]
    if not at_fault:
        return None, None
    not_on_purpose = [pair for pair in at_fault if not _is_on_purpose(pair[0])]
    first, through = min(not_on_purpose or at_fault, key=lambda pair: pair[0].order)
    if first.kind == "uninitialised":
        return first, first.reader
    return first, None if through is first else through


def roots_of(origin: NonfiniteOrigin) -> Iterator[NonfiniteOrigin]:
    """Yield the origins at fault: the change into NaN itself, unless its input Inf was unintentional."""
    culprits = [parent for parent in origin.parents if parent.kind in {"made", "turned", "uninitialised"}]
    if not culprits:
        yield origin
    for culprit in culprits:
        yield from roots_of(culprit)


def cause(
    first: NonfiniteOrigin, through: NonfiniteOrigin | None, reached: list[AffectedTensor], history: TrainingHistory
) -> NonfiniteCause:
    """Return the cause, with the operation's own mechanism if the cause is further up."""
    if _is_on_purpose(first):
        because = f"it is put in on purpose, and it reaches the {reached[0].what}"
        return NonfiniteCause(class_=f"deliberate-{first.what}", because=because)
    if first.kind == "outside":
        return _brought(first)
    if first.kind == "uninitialised":
        because = f"{first.operation} hands out memory that is read before it is written"
        return NonfiniteCause(class_="uninitialised-memory", because=because)
    found = NonfiniteCause(class_="unclassified", because="the operation is none that is known")
    if first.mechanism is not None:
        cls, because = first.mechanism
        found = NonfiniteCause(class_=cls, because=because, mechanism=cls)
    outside = [parent for parent in first.parents if parent.kind == "outside" and not _is_on_purpose(parent)]
    if outside and found.class_ in _FROM_INF:
        return replace(_brought(outside[0]), mechanism=found.class_)
    hidden = _hidden(first, through, reached)
    if hidden is not None:
        return NonfiniteCause(class_="where-gradient", because=hidden, mechanism=found.class_)
    return _out_of_scale(found, history) if found.class_ in _OUT_OF_SCALE else found


def _brought(origin: NonfiniteOrigin) -> NonfiniteCause:
    where, at, which = "inputs", "", "a tensor that no operation of the run has made"
    if (carrier := origin.carrier) is not None:
        where = _IN_NAME.get(carrier.kind, where)
        at = f" at {list(carrier.first_index)}" if carrier.first_index else ""
        which = f"the {carrier.kind} {carrier.name}" if carrier.name else which
    word = "NaN" if origin.what == "nan" else "Inf"
    return NonfiniteCause(class_=f"{origin.what}-in-{where}", because=f"{which} holds {word}{at} before it is used")


def _hidden(first: NonfiniteOrigin, through: NonfiniteOrigin | None, reached: list[AffectedTensor]) -> str | None:
    """Return the reason a forward mask did not protect the backward pass; None in other cases."""
    if first.found.phase == "forward":
        is_visible = any(each.what in {"output", "loss", "exception"} for each in reached)
        if not is_visible and any(each.what == "gradient" for each in reached):
            return "the forward result is masked out, but the gradient that flows back through it is 0 * inf or 0 * nan"
        return None
    turned = through if through is not None and through.found.node == first.found.node else first
    if first.masks and turned.what == "nan" and any(operand == 0 for operand in turned.operands.values()):
        return (
            f"{first.masks[0]} lets 0 flow back into {first.found.node}, "
            "whose derivative there is infinite: 0 * inf is NaN"
        )
    return None


def _out_of_scale(found: NonfiniteCause, history: TrainingHistory) -> NonfiniteCause:
    """Return the cause further up if weights or losses diverge, or a layer was initialised out of scale."""
    runaway = history.runaway()
    if runaway is not None:
        return replace(found, class_="learning-rate-too-high", because=runaway)
    wild = history.wild_layers() if history.steps_taken == 0 else []
    if wild:
        because = f"before any update, {wild[0].parameter} makes outputs {wild[0].gain:.3g} times its inputs"
        return replace(found, class_="bad-initialisation", because=because, layers=tuple(wild))
    return found
