"""ESP234: a training is resumed from a checkpoint without the state of its optimizer."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.programs import reached_from, starts
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.training import backward_calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_OPTIMIZERS = "torch.optim."
_SCHEDULERS = "torch.optim.lr_scheduler."
# Optimizers without state; plain SGD has none unless it has momentum.
_STATELESS = frozenset({"SGD"})
_HOPS = 2


class ResumeWithoutOptimizer(Rule):
    """A training that goes on at the epoch or step of a checkpoint, with an optimizer that starts without its state.

    ## Why it costs
    Adam begins with moments of zero and the bias correction of its first steps, momentum is lost, and a schedule
    starts again at its warm-up. The loss jumps at each resume, and a run that was interrupted is not the run that
    was not.

    ## When it is right
    Weights alone are loaded to start another training, at epoch 0. Reported only if the number of the epoch or step
    is taken from the checkpoint and starts a loop over `range`, while no `load_state_dict` of an optimizer is in
    sight in the program.

    ## Sources
    PyTorch tutorial "Saving and Loading Models", section "Saving & Loading a General Checkpoint for Inference and/or
    Resuming Training".
    """

    code, name = "ESP234", "resume-without-optimizer"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def train(model, loader, path, epochs):\n"
        "    optimizer = torch.optim.Adam(model.parameters())\n"
        "    state = torch.load(path, weights_only=True)\n"
        '    model.load_state_dict(state["model"])\n'
        '    for epoch in range(state["epoch"], epochs):\n'
        "        for x, y in loader:\n"
        "            optimizer.zero_grad()\n"
        "            torch.nn.functional.mse_loss(model(x), y).backward()\n"
        "            optimizer.step()\n"
    )
    good = bad.replace(
        '    model.load_state_dict(state["model"])\n',
        '    model.load_state_dict(state["model"])\n    optimizer.load_state_dict(state["optimizer"])\n',
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loads of weights whose training goes on without the state of its optimizer."""
        if not any(True for _ in backward_calls(file)):
            return
        for function in file.functions:
            for block in function.blocks:
                loop = block.node
                start = _start(loop) if isinstance(loop, ast.For) else None
                if start is None or not isinstance(loop, ast.For) or not _trains(function, loop, index):
                    continue
                loading = _loaded(start, function, loop.lineno, index)
                optimizer = _optimizer(function, index) if loading is not None else None
                if loading is None or optimizer is None or _restores(file, index):
                    continue
                yield self.hit(
                    loading.node,
                    f"training goes on at `{ast.unparse(start)}` of the checkpoint (line {loop.lineno}), and "
                    f"`{optimizer.tail}` (line {optimizer.line}) starts without its state",
                    remedy="save `optimizer.state_dict()` with the weights, and call `optimizer.load_state_dict(...)`",
                    confidence=Confidence.HIGH if loading.function is function else Confidence.MODERATE,
                    basis=FOLLOWED,
                )
                return


def _start(loop: ast.For) -> ast.expr | None:
    """Return where a loop over a range of numbers starts, unless it is a constant."""
    for node in walk(loop.iter):
        if isinstance(node, ast.Call) and dotted(node.func) in {"range", "trange"} and len(node.args) > 1:
            return None if isinstance(node.args[0], ast.Constant) else node.args[0]
    return None


def _trains(function: Function, loop: ast.For, index: ProjectIndex, hops: int = _HOPS) -> bool:
    """Return whether a loop sends something backward, itself or in a function that it calls."""
    inside = [call for call in function.calls if loop.lineno <= call.line <= (loop.end_lineno or 0)]
    if any(call.tail in {"backward", "manual_backward"} for call in inside):
        return True
    return any("backward" in index.reached(called) for call in inside for called in index.callees(call) if hops)


def _loaded(start: ast.expr, function: Function, line: int, index: ProjectIndex) -> Call | None:
    """Return the `torch.load` that a number was taken from, if weights are taken from it as well."""
    queue = [(start, function, line)]
    for value, where, at in queue:
        calls = {call.node: call for call in where.calls}
        for node in walk(value):
            call = calls.get(node) if isinstance(node, ast.Call) else None
            if call is not None and call.name == "torch.load":
                return call
            for called in index.callees(call) if call is not None and len(queue) < 30 else ():  # noqa: PLR2004 - enough for any project
                queue += [(each.value, called, each.lineno + 1) for each, _ in called.returns if each.value]
            path = dotted(node) if isinstance(node, ast.Name | ast.Attribute) else ""
            made = [each for each in where.assignments.get(path, ()) if each.line < at] if path else []
            if not made and path.startswith("self.") and where.owner is not None:
                made = where.owner.attributes.get(path, [])
            if len(queue) < 30:  # noqa: PLR2004 - enough for any project
                queue += [(each.value, each.block.function, each.line) for each in made]
    return None


def _program(file: FileTables, index: ProjectIndex) -> set[FileTables]:
    return {file}.union(*(reached_from(start, index) for start in starts(file, index)))


def _optimizer(function: Function, index: ProjectIndex) -> Call | None:
    """Return what makes an optimizer that has state: in a function, its class, its file or what its program imports."""
    found = [
        call
        for each in _program(function.file, index)
        for name, calls in each.by_name.items()
        if name.startswith(_OPTIMIZERS) and not name.startswith(_SCHEDULERS) and name[len(_OPTIMIZERS)].isupper()
        for call in calls
    ]
    near = [call for call in found if call.function is function]
    near = near or [call for call in found if function.owner is not None and call.function.owner is function.owner]
    chosen = sorted(near or found, key=lambda call: (call.function.file is not function.file, call.line))
    with_state = (call for call in chosen if call.tail not in _STATELESS or "momentum" in _options(call))
    return next(with_state, None)


def _options(call: Call) -> set[str | None]:
    return {option.arg for option in call.node.keywords}


def _restores(file: FileTables, index: ProjectIndex) -> bool:
    """Return whether some code of a program loads the state of an object that may be an optimizer."""
    for each in _program(file, index):
        for call in each.calls_ending("load_state_dict", "load_state", "load_checkpoint", "set_optimizer_state_dict"):
            if call.tail != "load_state_dict" and index.callees(call):
                # A function of the project: what it loads is seen in it.
                continue
            receiver = call.receiver.rpartition(".")[2].lower()
            arguments = " ".join(ast.unparse(one) for one in call.node.args).lower()
            if "optim" in receiver + arguments or receiver in {"opt", "state", "value", "obj", "v", "o", ""}:
                return True
            if call.receiver.endswith("]") or call.block.loop is not None:
                return True
    return False
