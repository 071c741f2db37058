"""ESP238: the optimizer is made again in each epoch or batch of a training."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import SEEN, FileRule
from esper_agents.review.training import backward_calls_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_OPTIMIZERS = "torch.optim."
# Without momentum an optimizer keeps nothing from step to step.
_WITHOUT_STATE = "SGD"


class OptimizerMadeInLoop(FileRule):
    """An optimizer that is made inside the loop over epochs or batches that it trains in.

    ## Why it costs
    The averages of gradients that Adam, AdamW, RMSprop and SGD with momentum keep start at zero each time, and so does
    the schedule of a learning rate that belongs to the old object. Adam's first steps are as large as its learning
    rate whatever the gradients are, so each epoch begins with a jump.

    ## When it is right
    The weights are made or reset in the same loop, as for folds and tasks; the loop is over stages with epochs of their
    own, or over learning rates; what is optimized is made in the loop, as in an attack on an image. None of these is
    reported.

    ## Sources
    PyTorch documentation of `torch.optim`, "Taking an optimization step". Kingma and Ba, "Adam", section 3, on the bias
    of the first steps.
    """

    code, name = "ESP238", "optimizer-made-in-loop"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader, epochs):\n"
        "    for epoch in range(epochs):\n"
        "        optimizer = torch.optim.Adam(model.parameters())\n"
        "        for x, y in loader:\n"
        "            optimizer.zero_grad()\n"
        "            criterion(model(x), y).backward()\n"
        "            optimizer.step()\n"
    )
    good = bad.replace(
        "    for epoch in range(epochs):\n        optimizer = torch.optim.Adam(model.parameters())\n",
        "    optimizer = torch.optim.Adam(model.parameters())\n    for epoch in range(epochs):\n",
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the optimizers of a loop's own trainings whose weights the loop does not make."""
        for call in file.calls:
            loop = call.block.loop
            if not call.name.startswith(_OPTIMIZERS) or loop is None or loop.kind is BlockKind.COMPREHENSION:
                continue
            weights = _weights(call)
            if not weights or not _is_unconditional(call.block, loop) or not _keeps_state(call):
                continue
            often = _trains_in(loop, call)
            if often and not _is_made_in(weights, loop, call):
                yield self.hit(
                    call.node,
                    f"this optimizer is made again in each {often}: the averages of gradients that it keeps start at "
                    "zero each time",
                    remedy="make it once before the loop",
                    basis=SEEN,
                )


def _weights(call: Call) -> str:
    """Return the root of the one path whose parameters an optimizer gets."""
    first = call.argument(0, "params")
    path = dotted(first) if first is not None else ""
    root = path.partition(".")[0]
    return path.removesuffix(".parameters()") if path.endswith(".parameters()") and root.isidentifier() else ""


def _keeps_state(call: Call) -> bool:
    if not call.name.endswith(f".{_WITHOUT_STATE}"):
        return True
    momentum = call.argument(2, "momentum")
    return momentum is not None and not (isinstance(momentum, ast.Constant) and not momentum.value)


def _is_unconditional(block: Block, loop: Block) -> bool:
    """Return whether each round of a loop comes to a block: on no arm of an `if` or `try`."""
    return all(each.kind is BlockKind.WITH or each is loop for each in block.chain() if each.within(loop))


def _trains_in(loop: Block, call: Call) -> str:
    """Return how often a loop makes an optimizer, `epoch` or `step`; empty if it does not train once with it."""
    loops = []
    for backward in backward_calls_in(call.function):
        if backward.line > call.line and backward.block.within(loop):
            inside = [each for each in backward.block.loops() if each is not loop and each.within(loop)]
            loops.append([each for each in inside if each.kind is not BlockKind.COMPREHENSION])
    if not loops or loop.loop is not loop or any(isinstance(loop.node, ast.While) for _ in (0,)):
        return ""
    if all(not inner for inner in loops):
        return "step"
    is_one = all(
        len(inner) == 1 and isinstance(inner[0].node, ast.For) and not _counts(inner[0].node) for inner in loops
    )
    return "epoch" if is_one else ""


def _counts(loop: ast.For) -> bool:
    """Return whether a loop counts: epochs or steps of their own inside of stages."""
    return any(isinstance(each, ast.Call) and dotted(each.func) in {"range", "trange"} for each in walk(loop.iter))


def _is_made_in(weights: str, loop: Block, call: Call) -> bool:
    """Return whether a loop makes, resets or draws what is optimized, or chooses the optimizer's settings."""
    function, root = call.function, weights.partition(".")[0]
    if any(root == target.partition(".")[0] for each in call.block.loops() for target in each.targets):
        return True
    bound = [each for path, all_ in function.assignments.items() if path.partition(".")[0] == root for each in all_]
    if any(each.block.within(loop) for each in bound):
        return True
    drawn = {target for each in call.block.loops() for target in each.targets}
    used = {each.id for each in walk(call.node) if isinstance(each, ast.Name)}
    inside = [each for each in function.calls if each.block.within(loop)]
    is_reset = any(
        each.tail in {"load_state_dict", "apply", "reset_parameters", "init_weights", "reset"}
        and each.path.partition(".")[0] == root
        for each in inside
    )
    return bool(drawn & used) or is_reset
