"""Compile a target in several modes and keep Dynamo's results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from ..results import MissingPart
from ..target.input_spec import Inputs
from ..target.stack_frames import frames_of
from ..target.user_lines import definition, place, plain
from .call_variants import asking_for_gradients, backward, eagerly, leading, resized
from .counting_backends import AutogradBackend, CountingBackend, Graph, instead_of_inductor
from .dynamo_listener import DynamoEvents, listen, reset
from .dynamo_log_parser import Break, read_reason
from .result import CallCounts, CompileOutcome

if TYPE_CHECKING:
    from ..target.target import LoadedTarget

_Make = Callable[[], Inputs]
_MOST_MESSAGE = 600
_MOST_CALLS = 12
# A first call, and one that shows whether the compiled code is reused.
_FEWEST_CALLS = 2


@dataclass
class CompiledCall:
    """Dynamo's work for one call.

    Attributes:
        what: Inputs of the call, in words.
        changes: `values` or `sizes`: difference from the previous call.
        make: Creates its inputs again.
        graphs: Graphs compiled for it.
        runs: Number of graphs that ran.
        breaks: Indices of its breaks in the log.
        recompiles: Indices of its recompilations in the log.
    """

    what: str
    changes: str
    make: _Make
    graphs: list[Graph] = field(default_factory=list)
    runs: int = 0
    breaks: range = range(0)
    recompiles: range = range(0)

    def described(self) -> CallCounts:
        """Return the call as stored in results."""
        return CallCounts(self.what, len(self.graphs), self.runs, len(self.breaks), len(self.recompiles))


class Study:
    """Compilation study of one target.

    Attributes:
        calls: Dynamo's work for several calls, in order.
        heard: Events of Dynamo's log.
        settles: For `values` and `sizes`, whether the last of such calls compiled nothing new.
        failure: Compilation error that ended the calls.
        fullgraph: Outcome with `fullgraph=True`; None if the calls failed.
        autograd: Outcome with autograd traced ahead of time; None as for `fullgraph`.
        under_autograd: Breaks that appear only then.
        by_user: Arguments of the user's own `torch.compile`; None without one.
        missing: Results that are not available, with the reasons.
    """

    def __init__(self, target: LoadedTarget, *, train: bool, seed: int) -> None:
        """Prepare the study; nothing is compiled yet."""
        self.calls: list[CompiledCall] = []
        self.heard = DynamoEvents()
        self.settles: dict[str, bool] = {}
        self.failure: CompileOutcome | None = None
        self.fullgraph: CompileOutcome | None = None
        self.autograd: CompileOutcome | None = None
        self.under_autograd: list[Break] = []
        self.missing: list[MissingPart] = []
        self._target = target
        self._train = train and target.kind != "step"
        self._seed = seed
        self._call, self.by_user = uncompiled(target)

    def several_calls(self) -> None:
        """Call it with the same shapes repeatedly and with other sizes, until no call recompiles or Dynamo gives up.

        Autograd is traced in the first call. If that fails, a separate run traces it.
        """
        ahead = AutogradBackend()
        self._several_calls(ahead)
        if self.failure is not None and len(self.calls) == 1:
            self.calls, self.settles, self.failure = [], {}, None
            self._several_calls(None)
        elif not ahead.has_failed:
            self.autograd = _with_counts(CompileOutcome(outcome="passes"), ahead)

    def _several_calls(self, ahead: AutogradBackend | None) -> None:
        reset()
        backend = CountingBackend(ahead)
        with listen() as self.heard, instead_of_inductor(backend):
            compiled = self._compiled(backend)
            for kind in (self._values, self._sizes):
                if self.failure is None:
                    self._settle(compiled, backend, kind())

    def _values(self) -> list[CompiledCall]:
        names = ["the first inputs", "other values", *(f"other values, {step}" for step in range(2, _MOST_CALLS))]
        return [CompiledCall(what, "values", self._inputs(step)) for step, what in enumerate(names)]

    def _sizes(self) -> list[CompiledCall]:
        size = leading(self._inputs(0)())
        if size is None:
            self._note("calls with other sizes", "no input is a tensor with a first dimension")
            return []
        sizes = [size + 1, size + 2, 2 * size + 3, *(2 * size + 3 + step for step in range(2, _MOST_CALLS - 2))]
        return [CompiledCall(f"leading dimension {rows}", "sizes", self._inputs(0, size=rows)) for rows in sizes]

    def _settle(self, compiled: Any, backend: CountingBackend, calls: list[CompiledCall]) -> None:
        """Make the first two of the calls, and more while each one causes a recompilation."""
        for number, call in enumerate(calls):
            if self.heard.limits or (number >= _FEWEST_CALLS and self.settles[call.changes]):
                return
            if not self._one_call(compiled, backend, call):
                return
            self.settles[call.changes] = not call.recompiles

    def _one_call(self, compiled: Any, backend: CountingBackend, call: CompiledCall) -> bool:
        heard = self.heard
        graphs, runs = len(backend.graphs), backend.runs
        backend.ahead = None if self.calls else backend.ahead
        breaks, recompiles, limits = len(heard.breaks), len(heard.recompiles), len(heard.limits)
        try:
            self._run(compiled, call.make())
        except Exception as error:  # noqa: BLE001 - Dynamo raises any error of a backend, a kernel or user code
            blame = self._eager_error(call.make)
            if blame is not None and not self.calls:
                raise blame from None
            if blame is not None:
                # The code itself rejects these inputs: Dynamo's messages for the call do not concern compilation.
                del heard.breaks[breaks:], heard.recompiles[recompiles:], heard.limits[limits:]
                self._note(f"a call with {call.what}", f"eagerly it raises {message(blame)}")
                return False
            self.failure = replace(self._failed(error), call=len(self.calls) + 1, what=call.what)
        call.graphs = backend.graphs[graphs:]
        call.runs = backend.runs - runs
        call.breaks = range(breaks, len(heard.breaks))
        call.recompiles = range(recompiles, len(heard.recompiles))
        self.calls.append(call)
        return self.failure is None

    def whole(self) -> None:
        """Determine whether the target compiles to one graph, and whether autograd can be traced ahead of time."""
        self.fullgraph = self._as_one_graph()
        if self.autograd is not None:
            return
        backend = AutogradBackend()
        outcome, heard = self._attempt(backend, self.calls[0])
        self.autograd = _with_counts(outcome, backend)
        known = {each.key for each in self.heard.breaks}
        self.under_autograd = [each for each in heard.breaks if each.key not in known]
        if self.under_autograd and outcome.outcome == "passes":
            self.autograd = replace(self.autograd, outcome="breaks")
            self.fullgraph, _ = self._attempt(AutogradBackend(), self.calls[0], fullgraph=True)

    def _as_one_graph(self) -> CompileOutcome:
        """Compile the first call, and the first one with a new break, with `fullgraph=True`."""
        late = next((each for each in self.calls[1:] if each.breaks), None)
        outcome = CompileOutcome()
        for call in [self.calls[0], *([late] if late is not None else [])]:
            backend = CountingBackend()
            outcome, _ = self._attempt(backend, call, fullgraph=True)
            if outcome.outcome == "fails":
                return replace(outcome, call=self.calls.index(call) + 1)
            outcome = replace(outcome, graphs=len(backend.graphs))
        return outcome

    def _attempt(
        self, backend: Callable[..., Any], call: CompiledCall, *, fullgraph: bool = False
    ) -> tuple[CompileOutcome, DynamoEvents]:
        reset()
        heard = DynamoEvents()
        try:
            with listen() as heard, instead_of_inductor(backend):
                self._run(self._compiled(backend, fullgraph=fullgraph), call.make())
        except Exception as error:  # noqa: BLE001 - as above
            return replace(self._failed(error), outcome="fails"), heard
        return CompileOutcome(outcome="passes"), heard

    def _inputs(self, step: int, *, size: int | None = None) -> _Make:
        def make() -> Inputs:
            inputs = self._target.inputs(self._seed + step)
            inputs = inputs if size is None else resized(inputs, size)
            return asking_for_gradients(self._target, inputs) if self._train else inputs

        return make

    def _compiled(self, backend: Callable[..., Any], *, fullgraph: bool = False) -> Any:
        dynamic = (self.by_user or {}).get("dynamic")
        return torch.compile(self._call, backend=backend, fullgraph=fullgraph, dynamic=dynamic)

    def _run(self, call: Callable[..., Any], inputs: Inputs) -> None:
        given = call(*inputs.args, **inputs.kwargs)
        if self._train and not backward(given):
            self._note("backward", "nothing that it returns asks for gradients")

    def _note(self, what: str, why: str) -> None:
        if (part := MissingPart(what, why)) not in self.missing:
            self.missing.append(part)

    def _eager_error(self, make: _Make) -> Exception | None:
        try:
            with eagerly():
                self._run(self._call, make())
        except Exception as error:  # noqa: BLE001 - as above
            return error
        return None

    def _failed(self, error: Exception) -> CompileOutcome:
        """Return the message of a compilation error, and its line in user code."""
        inner = getattr(error, "inner_exception", None)
        told = read_reason(str(getattr(error, "msg", error)))
        frames = [*frames_of(error), *(frames_of(inner) if isinstance(inner, Exception) else ())]
        return CompileOutcome(
            type=type(error).__name__,
            message=plain(self._target, message(inner or error)),
            kind=told.kind,
            explanation=plain(self._target, told.explanation) or None,
            hints=told.hints or None,
            page=told.page,
            link=told.link,
            place=place(self._target, frames) or definition(self._target),
        )


def _with_counts(outcome: CompileOutcome, backend: AutogradBackend) -> CompileOutcome:
    forward, behind = [*backend.forward, *backend.inference], backend.backward
    return replace(
        outcome,
        graphs=len(forward),
        op_count=sum(each.op_count for each in forward),
        backward_graphs=len(behind) if behind else None,
        backward_op_count=sum(each.op_count for each in behind) if behind else None,
    )


def uncompiled(target: LoadedTarget) -> tuple[Callable[..., Any], dict[str, bool] | None]:
    """Return the target without the user's own `torch.compile`, and the arguments of that."""
    call: Any = target.call
    inner = getattr(call, "_orig_mod", None)
    if isinstance(inner, torch.nn.Module):
        return inner, _options(getattr(call, "dynamo_ctx", None))
    if isinstance(call, torch.nn.Module) and getattr(call, "_compiled_call_impl", None) is not None:
        call._compiled_call_impl = None  # noqa: SLF001 - set by Module.compile(), without a public reset
        return call, {}
    if not hasattr(call, "_torchdynamo_orig_callable"):
        return call, None
    cells = [each.cell_contents for each in getattr(call, "__closure__", None) or ()]
    return call, _options(next((cell for cell in cells if hasattr(cell, "_dynamic")), None))


def _options(context: Any) -> dict[str, bool]:
    found = {"dynamic": getattr(context, "_dynamic", None), "fullgraph": getattr(context, "fullgraph", None)}
    return {name: each for name, each in found.items() if isinstance(each, bool)}


def message(error: BaseException) -> str:
    """Return an exception in one line."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}"[:_MOST_MESSAGE] if first else type(error).__name__
