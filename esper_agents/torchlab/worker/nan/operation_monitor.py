"""Check the outputs of every operation of a run and trace each NaN and Inf to its origin."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..results import shallow
from ..target.pytrees import tensors_in
from .call_sites import outside_torch
from .causes import mechanism
from .operation_call import OperationCall
from .operation_schema import OperationSchema
from .origin import NonfiniteOrigin, OperationDetails
from .result import BadElement, NonfiniteCarrier, TensorStatistics
from .taint import StorageTaint
from .tensor_statistics import first_bad, holds, is_finite, is_numeric, number, statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from .backward_graph import Roots
    from .call_sites import Sites, SiteVisit
    from .result import NonfiniteKind

# Maximum number of origins per step that are described in full; further ones are not.
_MOST_DESCRIBED = 64
_MOST_MASKS = 4


class OperationMonitor(TorchDispatchMode):
    """Mode that checks the outputs of each operation, forward and backward, while it is active.

    Memory from `torch.empty` is filled with NaN, so that reading it before writing always shows.

    Attributes:
        operations: Number of checked operations.
        unchecked: Operations whose outputs torch cannot inspect, with their counts.
        born: Origins of the step, in order, without intentional and uninitialised ones.
        read: Origins of numbers that were read as Python numbers.
        has_seen: Whether a non-finite number occurred in this step.
        marks: Origins of memory contents.
        has_unscaled: Whether a gradient scaler checked for non-finite numbers in this step.
    """

    def __init__(self, sites: Sites, name_of: Callable[[torch.Tensor], tuple[str, str | None]], roots: Roots) -> None:
        """Create the monitor with a call site finder, a function that names tensors, and the backward roots."""
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it without annotations
        self.operations = 0
        self.unchecked: dict[str, int] = {}
        self.born: list[NonfiniteOrigin] = []
        self.read: list[NonfiniteOrigin] = []
        self.has_seen = False
        self.has_unscaled = False
        self._step = 0
        self._order = 0
        self._sites = sites
        self._name_of = name_of
        self._roots = roots
        self._plans: dict[Any, OperationSchema] = {}
        self.marks = StorageTaint()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Bypass torch's compiler: importing it takes seconds, and nothing is compiled here."""
        return False

    def begin(self, step: int) -> None:
        """Begin a step: marks of live memory are kept."""
        self._step = step
        self.born, self.read, self.has_unscaled, self.has_seen = [], [], False, False
        self.marks.prune()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and check its outputs."""
        del types
        kwargs = kwargs or {}
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = OperationSchema(func)
        self._sites.note(plan.name)
        if plan.is_ignored:
            return func(*args, **kwargs)
        named = plan.named(args, kwargs)
        before = _before(plan, named) if plan.keeps else {}
        put_out = func(*args, **kwargs)
        self.operations += 1
        try:
            self._look(func, plan, named, before, put_out)
        except (RuntimeError, NotImplementedError):
            self.unchecked[plan.name] = self.unchecked.get(plan.name, 0) + 1
        return put_out

    def _look(
        self, func: Any, plan: OperationSchema, named: dict[str, Any], before: dict[str, Any], put_out: Any
    ) -> None:
        if plan.is_uninitialised:
            self._poison(plan, put_out)
            return
        if plan.is_read:
            if isinstance(put_out, (float, complex)) and not math.isfinite(abs(put_out)):
                self.read.extend(self.marks.origins(named["self"]))
            return
        self.has_unscaled |= plan.base.startswith("_amp_foreach_non_finite")
        outputs = [*tensors_in(put_out)]
        if plan.writes:
            outputs += [each for name in plan.writes for each in tensors_in(named.get(name))]
        outputs = [each for each in {id(output): output for output in outputs}.values() if is_numeric(each)]
        if all(is_finite(output) for output in outputs):
            if self.marks:
                for output in outputs:
                    self.marks.clear(output)
            return
        self.has_seen = True
        is_intact = bool(before) or not plan.keeps
        self._trace(OperationCall(func, plan.name, plan.base, named | before, named, outputs, is_intact), plan)

    def _poison(self, plan: OperationSchema, made: Any) -> None:
        for tensor in tensors_in(made):
            if is_numeric(tensor) and tensor.numel():
                found = self._sites.find(plan.name)
                self.marks.poison(tensor, self._origin("uninitialised", "nan", plan.name, found))

    def _trace(self, call: OperationCall, plan: OperationSchema) -> None:
        """Mark the non-finite outputs of an operation with their origin: the operation itself, or its inputs."""
        found = self._sites.find(plan.name)
        sick = self._sick(call, plan)
        given = tuple(
            dict.fromkeys(each for tensor, origin in sick for each in self._given(call, tensor, origin, plan, found))
        )
        what: NonfiniteKind = "nan" if any(holds(output) == "nan" for output in call.outputs) else "inf"
        deliberate = _deliberate(call) if plan.puts_numbers_in else None
        if deliberate == what:
            given += (self._origin("deliberate", what, plan.name, found),)
        elif not given:
            given = (self._born("made", what, call, found, ()),)
        elif what == "nan" and not any(each.what == "nan" for each in given):
            given = (self._born("turned", what, call, found, given),)
        overwritten = {id(each) for name in plan.overwritten for each in tensors_in(call.originals.get(name))}
        for output in call.outputs:
            if is_finite(output):
                self.marks.clear(output)
            else:
                self.marks.put(output, given, is_whole=not plan.writes or id(output) in overwritten)

    def _sick(self, call: OperationCall, plan: OperationSchema) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the inputs with non-finite numbers, each before and after the call."""
        sick = []
        for name, tensor, original in call.tensors():
            if not is_numeric(tensor) or name in plan.overwritten:
                continue
            is_lost = name in plan.writes and not call.is_intact
            if bool(self.marks.origins(original)) if is_lost else not is_finite(tensor):
                sick.append((tensor, original))
        return sick

    def _given(
        self, call: OperationCall, tensor: torch.Tensor, original: torch.Tensor, plan: OperationSchema, found: SiteVisit
    ) -> tuple[NonfiniteOrigin, ...]:
        """Return the origins of an input's non-finite numbers."""
        known = self.marks.origins(original)
        if not known:
            kind, name = self._name_of(original)
            what = holds(tensor) or "nan"
            origin = self._origin("outside", what, plan.name, found)
            origin.details = self._details(call, what)
            index = first_bad(tensor, what)
            origin.carrier = NonfiniteCarrier(
                **shallow(statistics(tensor, name)), kind=kind, first_index=None if index is None else tuple(index)
            )
            self.born.append(origin)
            known = (origin,)
            self.marks.put(original, known, is_whole=False)
        for each in known:
            if each.kind == "uninitialised" and each.reader is None and not plan.is_partial:
                each.reader = self._origin("turned", each.what, plan.name, found, (each,))
                each.reader.details = self._details(call, each.what)
        return known

    def _born(
        self,
        kind: str,
        what: NonfiniteKind,
        call: OperationCall,
        found: SiteVisit,
        parents: tuple[NonfiniteOrigin, ...],
    ) -> NonfiniteOrigin:
        origin = self._origin(kind, what, call.name, found, parents)
        self.born.append(origin)
        if len(self.born) <= _MOST_DESCRIBED:
            origin.details = self._details(call, what)
            origin.mechanism = mechanism(call, what, found.node)
            if found.node is not None and len(self.born) <= _MOST_MASKS:
                origin.masks = tuple(self._roots.masks_above(torch._C._current_autograd_node()))  # noqa: SLF001 - no public name
        return origin

    def _origin(
        self,
        kind: str,
        what: NonfiniteKind,
        operation: str,
        found: SiteVisit,
        parents: tuple[NonfiniteOrigin, ...] = (),
    ) -> NonfiniteOrigin:
        self._order += 1
        return NonfiniteOrigin(self._order, kind, what, self._step, operation, found, parents)

    def _details(self, call: OperationCall, what: str) -> OperationDetails:
        stack, inputs, member = self._sites.stack(), [], None
        outside = outside_torch(sys._getframe(1))  # noqa: SLF001 - the interpreter's own access to the stack
        for name in call.arguments:
            each = call.argument(name)
            if isinstance(each, (list, tuple)):
                # Of a list of tensors, the first non-finite one is the most informative.
                tensors = [one for one in each if isinstance(one, torch.Tensor)]
                member = next((place for place, one in enumerate(tensors) if not is_finite(one)), 0)
                if not tensors:
                    continue
                each = tensors[member]
            if isinstance(each, torch.Tensor):
                inputs.append(statistics(each, name))
            elif isinstance(each, (int, float)) and not isinstance(each, bool):
                inputs.append(TensorStatistics(name=name, number=number(each)))
        at = call.at(what)
        return OperationDetails(
            stack=stack,
            outside=None if stack else outside,
            inputs=tuple(inputs),
            output=statistics(call.outputs[call.member]),
            at=None
            if at is None
            else BadElement(tuple(at.index), {name: number(each) for name, each in at.operands.items()}),
            member=member,
            is_overwritten=not call.is_intact,
        )


def _before(plan: OperationSchema, named: dict[str, Any]) -> dict[str, Any]:
    """Return copies of the arguments that an operation will overwrite, unless they are too large."""
    written = {name: named[name] for name in plan.writes if named.get(name) is not None}
    tensors = [each for each in tensors_in(written) if is_numeric(each) and each.layout is torch.strided]
    if sum(tensor.nbytes for tensor in tensors) > plan.most_kept_bytes:
        return {}
    return {name: _cloned(each) for name, each in written.items()}


def _cloned(thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        return thing.detach().clone() if is_numeric(thing) else thing
    return [_cloned(each) for each in thing] if isinstance(thing, (list, tuple)) else thing


def _deliberate(call: OperationCall) -> NonfiniteKind | None:
    """Return the non-finite kind of a plain number among the arguments: `nan` or `inf`, None for neither."""
    numbers = [
        argument for argument in call.arguments.values() if isinstance(argument, float) and not math.isfinite(argument)
    ]
    if not numbers:
        return None
    return "nan" if any(math.isnan(each) for each in numbers) else "inf"
