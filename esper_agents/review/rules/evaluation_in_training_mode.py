"""ESP102: a model is evaluated while it is still in training mode."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.evaluations import is_evaluation, parts_run_by, runs_of_models
from esper_agents.review.frameworks import provides_evaluation, switches_modes
from esper_agents.review.moded_layers import has_no_mode, holds_moded_layer, mode_changes_something
from esper_agents.review.model.query import EventKind, GradMode, evaluated_lines, runs
from esper_agents.review.model.query import Mode as ModelMode
from esper_agents.review.model_modes import Mode, mode_events, modes_before
from esper_agents.review.models import belongs_to_training, forward_calls, gradients_off_around
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import resolve
from esper_agents.review.renamings import means_outside
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.unpacked import modules_handed_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import ModelEvent, ModelMatch, Run
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_BACKWARD = frozenset({"backward", "manual_backward"})
_READING = frozenset({"torch.load", "torch.hub.load_state_dict_from_url", "safetensors.torch.load_file"})


class EvaluationInTrainingMode(Rule):
    """An evaluation whose model nobody has switched to evaluation mode, though it was trained or given trained weights.

    ## Why it costs
    In training mode dropout goes on dropping, and batch normalisation uses the statistics of the batch and updates
    its own with held-out data. The reported numbers are wrong, and the model is changed by being measured.

    ## When it is right
    The model has no layer that behaves differently, dropout is wanted at test time (Monte Carlo dropout), or the
    switch is made elsewhere: `.eval()` and `.train(False)` are looked for in the function, in what it calls and in
    its callers. A function that nothing in the reviewed files calls is not reported, because its caller may switch.

    ## Sources
    PyTorch documentation of `torch.nn.Module.eval`; PyTorch notes, "Autograd mechanics", on evaluation mode.
    """

    code, name = "ESP102", "evaluation-in-training-mode"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "def evaluate(model, loader):\n"
        "    correct = 0\n"
        "    with torch.no_grad():\n"
        "        for x, y in loader:\n"
        "            correct += (model(x).argmax(1) == y).sum()\n"
        "    return correct\n"
        "\n"
        "\n"
        "def fit(model, loader, held_out, optimizer):\n"
        "    for epoch in range(3):\n"
        "        model.train()\n"
        "        for x, y in loader:\n"
        "            optimizer.zero_grad()\n"
        "            criterion(model(x), y).backward()\n"
        "            optimizer.step()\n"
        "        print(evaluate(model, held_out))\n"
    )
    good = bad.replace("    correct = 0\n", "    model.eval()\n    correct = 0\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the first forward call of each evaluation that no `.eval()` reaches."""
        seen: set[Block] = set()
        evaluated = evaluated_lines(index)
        for call in (*forward_calls(file, index), *parts_run_by(file, index)):
            place = call.block.loop or call.function.block
            if place in seen or call.path == "self.forward" or (file.path, call.line) in evaluated:
                continue
            if not (_is_evaluation_of_trained(call, index) or _is_loaded(call, index)):
                continue
            if modes_before(call, _model(call), index) != {Mode.TRAINING} or _is_explained(call, index):
                continue
            seen.add(place)
            yield self._found(call, index)
        for call in file.calls:
            if call.block.loop is not None and call.block.loop not in seen and _runs_in_training(call, index):
                seen.add(call.block.loop)
                yield self._found(call, index)

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield runs of trained models without gradients, over data of their own, in training mode.

        Only of models that certainly have a layer that acts differently.
        """
        for run in runs(index):
            for forward in run.forwards:
                if forward.acts is not True or run.mode(forward) is not ModelMode.TRAINING:
                    continue
                if _is_teacher(run, forward, index):
                    yield self.model_match(
                        run.place(forward, None),
                        f"{forward.text!r} has weights from a file, gives targets without gradients, and is still in "
                        "training mode: dropout acts on the targets, and batch norm changes its statistics",
                        remedy=f"call `{forward.text}.eval()` once its weights are loaded",
                        confidence=Confidence.MODERATE,
                        severity=Severity.WARNING,
                        regions=run.regions(forward),
                    )
                if not _is_only_measured(run, forward):
                    continue
                yield self.model_match(
                    run.place(forward, None),
                    f"{forward.text!r} is evaluated in training mode: nothing calls `.eval()` before",
                    remedy=f"call `{forward.text}.eval()` before, and `{forward.text}.train()` when training goes on",
                    confidence=Confidence.HIGH,
                    regions=run.regions(forward),
                )

    def _found(self, call: Call, index: ProjectIndex) -> RuleMatch:
        trained_here = any(each.tail in _BACKWARD for each in call.function.calls)
        caller = next(iter(index.callers(call.function)), None)
        where = f" (called at {caller.function.file.path}:{caller.line})" if caller and not trained_here else ""
        return self.hit(
            call.node,
            f"{call.path!r} is evaluated{where} in training mode: nothing calls `.eval()` before",
            remedy=f"call `{call.path}.eval()` before the loop, and `{call.path}.train()` when training goes on",
            confidence=Confidence.HIGH if trained_here else Confidence.MODERATE,
            basis=SEEN if trained_here else FOLLOWED,
        )


def _is_only_measured(run: Run, forward: ModelEvent) -> bool:
    """Return whether a run of a model after a training, or with loaded weights, is for its result alone."""
    if run.flows_backward(forward) or not run.is_apart(forward) or run.escapes(forward):
        return False
    loop = run.data_loop(forward)
    if (loop is not None and not run.outlives(forward, loop)) or (loop is None and not forward.inputs):
        # What a model makes of fixed noise is looked at, not measured.
        return False
    if forward.grad is not GradMode.OFF and (loop is None or run.trains_in(loop) or not run.is_recorded(forward)):
        return False
    # A mode that was set for this very run is wanted: batch statistics renewed, dropout as noise.
    since = max((setter.number for setter in run.setters(forward)), default=-1)
    return run.is_trained_before(forward, since) or run.has_loaded(forward, since)


def _is_teacher(run: Run, forward: ModelEvent, index: ProjectIndex) -> bool:
    """Return whether a model with weights from a file makes targets for another, and nothing ever set its mode."""
    if forward.grad is not GradMode.OFF or not run.flows_backward(forward) or run.setters(forward):
        return False
    if any(each.target == forward.target and run.is_sent_backward(each) for each in run.forwards):
        return False
    if any(_pairs_parameters(call) for call in index.calls_ending("zip")):
        # A moving average of the trained weights may stay in training mode, to follow their statistics.
        return False
    loads = [each for each in run.of_kind(EventKind.LOAD_STATE) if each.target == forward.target]
    return len(loads) == 1 and loads[0].number < forward.number and _is_from_file(loads[0], index)


def _pairs_parameters(call: Call) -> bool:
    """Return whether a call goes through the parameters of two models together."""
    return sum("parameters()" in dotted(each) for each in call.node.args) > 1


def _is_from_file(load: ModelEvent, index: ProjectIndex) -> bool:
    """Return whether the weights that are loaded come from a file."""
    calls = index.files[load.path].calls_ending("load_state_dict")
    call = next((each for each in calls if each.line == load.at.line), None)
    state = call.argument(0, "state_dict") if call is not None else None
    if call is None or state is None:
        return False
    whole = state
    while isinstance(whole, ast.Subscript | ast.Attribute):
        whole = whole.value
    origins = (*index.origins(state, call.function, call.line), *index.origins(whole, call.function, call.line))
    return any(
        isinstance(node, ast.Call) and resolve(dotted(node.func), origin.function) in _READING
        for origin in origins
        for node in walk(origin.value)
    )


def _runs_in_training(call: Call, index: ProjectIndex) -> bool:
    """Return whether an evaluation runs its model in a function of these files, and leaves it in training mode."""
    for model in runs_of_models(call, index):
        if not is_evaluation(call, index) or not belongs_to_training(call.function, index):
            return False
        path = means_outside(call, model.function, _model(model), index)
        if not path or mode_events(model.function, _model(model), index):
            continue
        is_training = modes_before(call, path, index) == {Mode.TRAINING}
        if is_training and not _is_explained(model, index) and not _is_explained(call, index):
            return True
    return False


def _model(call: Call) -> str:
    return call.receiver if call.tail == "forward" else call.path


def _is_explained(call: Call, index: ProjectIndex) -> bool:
    function = call.function
    if provides_evaluation(function, index) or switches_modes(function.file):
        return True
    if has_no_mode(call.node.func, function, call.line, index):
        return True
    held = [call.node.func]
    while isinstance(held[-1], ast.Attribute):
        held.append(held[-1].value)
    owners = [index.class_of(each, function, call.line) for each in held]
    return any(
        not mode_changes_something(owner, index) for owner in owners if owner is not None and index.is_module(owner)
    )


def _is_evaluation_of_trained(call: Call, index: ProjectIndex) -> bool:
    return is_evaluation(call, index) and belongs_to_training(call.function, index)


def _is_loaded(call: Call, index: ProjectIndex) -> bool:
    """Return whether a model whose layers care for the mode runs without gradients on weights it was given here."""
    if not gradients_off_around(call.block, index) or belongs_to_training(call.function, index):
        return False
    path = _model(call).removesuffix(".module")
    owner = index.class_of(call.node.func, call.function, call.line)
    if owner is None or not holds_moded_layer(owner, index):
        return False
    places = [(call.function, path)]
    places += [
        (caller.function, means_outside(caller, call.function, path, index)) for caller in index.callers(call.function)
    ]
    made = index.binding(path, call.function, call.line)
    places += [(function, name) for name, function in modules_handed_back(made, index)] if made is not None else []
    return any(
        each.tail == "load_state_dict" and name and each.receiver.removesuffix(".module") == name
        for function, name in places
        for each in function.calls
    )
