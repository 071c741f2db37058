"""Job: time batches of calls on inputs that the lab sends, and show afterwards what any of them did."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import torch

from ..process.devices import wait
from ..results import described
from ..target import module_state
from ..target.backward import backward, incoming
from ..target.input_spec import Inputs
from ..target.pytrees import tensors_of
from ..target.target import LoadedTarget, seed_all
from . import background_work
from .call_surroundings import settle
from .observe import observed_process
from .patched_functions import watch
from .plan_step import ObservedEnd
from .result import TimedBatch, WarmedArm
from .tensor_bundle import Bundle, Piece, capture, close_all, read_and_close, write
from .timed_inputs import bundled, drawn, repeats, unbundled

_Tell = Callable[[str, float], None]
# Time to make an input below which a batch of this size is made, to find out what one of them takes.
_QUICK_NS, _MANY = 250_000, 16
_LARGE_STATE = 16 << 20


@dataclass
class _Arm:
    """One side of a comparison, warmed up.

    Attributes:
        run: Runs the target once on inputs and returns its output.
        has_backward: Whether a run leaves gradients.
        matching: Matching of the module's state with the baseline's.
        roots: Outputs of an earlier call that require gradients: the shapes of incoming ones.
        incoming: Incoming gradients of the next calls.
        seed: Seed of the batch.
        lead_in: Inputs of the untimed calls.
        batch: Inputs of the timed calls.
        first_timed: Number of the first timed call; the untimed ones are numbered from zero.
        outputs: What the calls returned.
        gradients: For each call the gradients of the parameters.
    """

    run: Callable[..., Any]
    has_backward: bool
    matching: module_state.Matching | None = None
    roots: list[torch.Tensor] = field(default_factory=list)
    incoming: list[list[torch.Tensor]] = field(default_factory=list)
    seed: int = 0
    lead_in: list[Inputs] = field(default_factory=list)
    batch: list[Inputs] = field(default_factory=list)
    first_timed: int = 0
    outputs: list[Any] = field(default_factory=list)
    gradients: list[dict[str, Any]] = field(default_factory=list)


def run(target: LoadedTarget, request: dict[str, Any], tell: _Tell) -> Any:
    """Run one phase of a comparison.

    Args:
        target: One of the two arms.
        request: `phase`: `warm` (`calls`, `seed`, `train`; `has_costs`: whether to find out what sending an input
            takes; `files`: the plan, for the baseline's parameters), `draw` (`calls`, `seed`), `prepare` (`calls`,
            `lead_in`, `draw`, `seed`, `shifts`; `files`: inputs), `time`, `kept` (`calls`: which; `has_state`), or
            `process`.
        tell: Not used; no phase takes long.

    Returns:
        For `warm` a `WarmedArm`, for `time` a `TimedBatch`, for `prepare` nothing; for the others a bundle.
    """
    del tell
    phase = request["phase"]
    if phase == "warm":
        return _warm(target, request)
    arm: _Arm = target.notes["arm"]
    match phase:
        case "draw":
            seed_all(int(request["seed"]))
            made = drawn(target, int(request["calls"]), train=arm.has_backward)
            return {}, bundled(made)
        case "prepare":
            return _prepare(target, arm, request)
        case "time":
            return _time(target, arm)
        case "kept":
            return {}, (write(_kept(target, arm, request), {}),)
        case _:
            end = ObservedEnd([], 0, 0, background_work.has_children(), 0)
            return {}, (write({}, described(observed_process(target, end, request["scratch"]))),)


def _warm(target: LoadedTarget, request: dict[str, Any]) -> WarmedArm:
    settle()
    arm = target.notes["arm"] = _Arm(target.call, request["train"])
    if arm.has_backward:
        arm.run = _with_backward(target, arm)
    if request.get("files") and target.module is not None:
        arm.matching = _matched(target, read_and_close(request["files"]))
    # A function has no parameters to match, and must not see the file that an observed process has closed.
    close_all(request.get("files", []))
    state = module_state.state_of(target.module) if target.module is not None else {}
    target.notes["parameters"] = [(name, each) for name, each in state.items() if each.requires_grad]
    calls_ns, inputs_ns, size = [], [], 0
    target.notes["repeats"] = repeats(target)
    seed_all(int(request["seed"]))
    for _ in range(int(request["calls"])):
        begun = perf_counter_ns()
        (inputs,) = drawn(target, 1, train=arm.has_backward)
        wait(target.device)
        made = perf_counter_ns()
        arm.run(*inputs.args, **inputs.kwargs)
        wait(target.device)
        calls_ns.append(perf_counter_ns() - made)
        inputs_ns.append(made - begun)
        _taken(target)
        size = sum(each.nbytes for each in tensors_of((inputs.args, inputs.kwargs)))
    one = drawn(target, 1, train=False)
    # Integers cannot be varied without changing the computation.
    is_fixed = not any(each.is_floating_point() for each in tensors_of([(each.args, each.kwargs) for each in one]))
    making_ns = min(inputs_ns)
    if request.get("has_costs") and making_ns < _QUICK_NS:
        making_ns = min(_sending_ns(target, is_training=arm.has_backward) for _ in range(2))
    return WarmedArm(min(calls_ns), making_ns, size, bool(target.notes["repeats"]) and is_fixed)


def _sending_ns(target: LoadedTarget, *, is_training: bool) -> int:
    """Return the time to make one input and to send it to both arms."""
    one_ns, many_ns = (_sent_ns(target, count, is_training=is_training) for count in (1, _MANY))
    return max((many_ns - one_ns) // (_MANY - 1), 1)


def _sent_ns(target: LoadedTarget, calls: int, *, is_training: bool) -> int:
    begun = perf_counter_ns()
    for each in bundled(drawn(target, calls, train=is_training)):
        unbundled(each)
        os.close(each)
    return perf_counter_ns() - begun


def _matched(target: LoadedTarget, plan: Bundle) -> module_state.Matching | None:
    """Write the baseline's parameters into the target as far as they match; return the matching."""
    if target.module is None or "state 0" not in plan.pieces:
        return None
    values = module_state.prepared(plan.pieces["state 0"].restore(), is_wide=False)
    return module_state.match(target.module, values, frozenset(plan.about["saved"]))


def _prepare(target: LoadedTarget, arm: _Arm, request: dict[str, Any]) -> dict[str, Any]:
    arm.outputs, arm.gradients, arm.lead_in, arm.batch = [], [], [], []
    # A tensor's address can make it 9 % slower. Each batch uses another, so the fastest is well placed in both arms.
    shifts = [torch.empty(each, dtype=torch.uint8) for each in request["shifts"]]
    arm.seed = int(request["seed"])
    most_before, most = request["draw"]
    if request["files"]:
        inputs = unbundled(request["files"][0])
    else:
        seed_all(arm.seed)
        inputs = drawn(target, most_before + most, train=arm.has_backward)
    arm.first_timed = most_before
    arm.lead_in = inputs[:most_before][: request["lead_in"]]
    arm.batch = inputs[most_before:][: request["calls"]]
    del shifts[::2]
    if arm.has_backward and target.kind != "step":
        wanted = incoming(arm.roots, arm.seed)
        arm.incoming = [[each.clone() for each in wanted] for _ in range(len(arm.lead_in) + len(arm.batch))]
    gc.collect(0)
    return {}


def _time(target: LoadedTarget, arm: _Arm) -> TimedBatch:
    # The first call after a pause has cold caches: some microseconds, which would move every ratio towards 1.
    background_work.seed(arm.seed)
    for each in arm.lead_in:
        arm.outputs.append(arm.run(*each.args, **each.kwargs))
        arm.gradients.append(_taken(target))
    # A target that draws random numbers draws the same ones in both arms.
    background_work.seed(arm.seed)
    batch = arm.batch
    wait(target.device)
    begun = perf_counter_ns()
    # Every output is kept: which of them are looked at is drawn when the batch is done.
    if arm.has_backward:
        for each in batch:
            arm.outputs.append(arm.run(*each.args, **each.kwargs))
            # Accumulated gradients would make each call add to the previous ones.
            arm.gradients.append(_taken(target))
    elif any(each.kwargs for each in batch):
        arm.outputs += [arm.run(*each.args, **each.kwargs) for each in batch]
    else:
        call = arm.run
        arm.outputs += [call(*args) for args in [each.args for each in batch]]
    wait(target.device)
    return TimedBatch(perf_counter_ns() - begun)


def _kept(target: LoadedTarget, arm: _Arm, request: dict[str, Any]) -> dict[str, Piece]:
    """Return what calls of the last batch did: output, inputs afterwards, gradients; and the state after all."""
    pieces: dict[str, Piece] = {}
    every = [*arm.lead_in, *arm.batch]
    users = Counter(id(each) for one in every for each in tensors_of((one.args, one.kwargs)))
    for number in request["calls"]:
        at = number if number < arm.first_timed else len(arm.lead_in) + number - arm.first_timed
        inputs = every[at]
        # What several calls take depends on how many of them there were, which differs between the arms.
        own_inputs = [each for each in tensors_of((inputs.args, inputs.kwargs)) if users[id(each)] == 1]
        pieces[f"output {number}"] = capture(arm.outputs[at])
        pieces[f"inputs_after {number}"] = capture([each.detach() for each in own_inputs])
        if arm.has_backward and target.kind != "step":
            taken = arm.gradients[at]
            names = arm.matching.names if arm.matching is not None else {}
            found = {theirs: taken[mine] for theirs, mine in names.items() if mine in taken}
            leaves = [each.grad for each in own_inputs if each.requires_grad and each.is_leaf]
            pieces[f"gradients {number}"] = capture({"inputs": leaves, "parameters": found})
    if request["has_state"] and target.module is not None and arm.matching is not None:
        own = module_state.state_of(target.module)
        if sum(each.nbytes for each in own.values()) <= _LARGE_STATE:
            names = arm.matching.names
            pieces["state_after"] = capture({theirs: own[mine] for theirs, mine in names.items() if mine in own})
    return pieces


def _with_backward(target: LoadedTarget, arm: _Arm) -> Callable[..., Any]:
    if target.kind == "step":
        return target.call

    def forward_and_backward(*args: Any, **kwargs: Any) -> Any:
        given = target.call(*args, **kwargs)
        roots = [each for each in tensors_of(given) if each.requires_grad]
        wanted = arm.incoming.pop() if arm.incoming else []
        if [each.shape for each in wanted] != [root.shape for root in roots]:
            arm.roots = [root.detach() for root in roots]
            wanted = incoming(roots, arm.seed)
        backward(roots, wanted)
        return given

    return forward_and_backward


def _taken(target: LoadedTarget) -> dict[str, Any]:
    """Return the gradients of the module's parameters, and leave none."""
    taken: dict[str, Any] = {}
    for name, each in target.notes["parameters"]:
        taken[name] = each.grad
        each.grad = None
    return taken


watch(sys.modules[__name__])
