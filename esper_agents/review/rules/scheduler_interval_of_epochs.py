"""ESP259: a Lightning module gives a schedule of all batches to the trainer, which steps it once an epoch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.training import makers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

# The argument that says how many steps a schedule lasts, with its position.
_LENGTHS = {
    "CosineAnnealingLR": ("T_max", 1),
    "LinearLR": ("total_iters", 3),
    "PolynomialLR": ("total_iters", 1),
    "OneCycleLR": ("total_steps", 2),
    "get_linear_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_schedule_with_warmup": ("num_training_steps", 2),
    "get_polynomial_decay_schedule_with_warmup": ("num_training_steps", 2),
}
_STEPS = (
    "estimated_stepping_batches",
    "num_training_batches",
    "max_steps",
    "len(",
    "steps_per_epoch",
    "num_training_steps",
    "total_steps",
)


class SchedulerIntervalOfEpochs(Rule):
    """A schedule made for all batches that `configure_optimizers` returns without `"interval": "step"`.

    ## Why it costs
    The trainer of Lightning steps a scheduler once an epoch unless it is told otherwise. A one-cycle schedule, or a
    warm-up over a number of batches, then moves by one step an epoch: training ends inside the warm-up, with a
    learning rate far below the planned one. Nothing raises.

    ## When it is right
    `{"scheduler": scheduler, "interval": "step"}`, or a schedule whose length counts epochs. Modules that step their
    scheduler themselves are not reported.

    ## Sources
    Lightning documentation of `LightningModule.configure_optimizers`: the default of `interval` is `epoch`.
    """

    code, name = "ESP259", "scheduler-interval-of-epochs"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import lightning as L\n"
        "import torch\n"
        "\n"
        "\n"
        "class Classifier(L.LightningModule):\n"
        "    def configure_optimizers(self):\n"
        "        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)\n"
        "        scheduler = torch.optim.lr_scheduler.OneCycleLR(\n"
        "            optimizer, max_lr=0.1, total_steps=self.trainer.estimated_stepping_batches\n"
        "        )\n"
        "        return [optimizer], [scheduler]\n"
    )
    good = bad.replace("[scheduler]\n", '[{"scheduler": scheduler, "interval": "step"}]\n')

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the schedules of batches that are stepped by epoch."""
        for function in file.functions:
            if function.name != "configure_optimizers" or function.owner is None or _steps_itself(function):
                continue
            text = ast.unparse(function.node)
            if "interval" in text:
                continue
            for statement, _ in function.returns:
                for value in _schedulers(statement.value, function):
                    for origin in makers(value, function, statement.lineno, index):
                        call = next((each for each in origin.function.calls if each.node is origin.value), None)
                        if call is not None and _counts_batches(call):
                            yield self.hit(
                                statement,
                                f"`{call.tail}` (line {call.line}) lasts as many steps as there are batches, and the "
                                "trainer steps it once an epoch",
                                remedy='return it as `{"scheduler": scheduler, "interval": "step"}`',
                                confidence=Confidence.HIGH if call.function is function else Confidence.MODERATE,
                                basis=FOLLOWED,
                            )


def _steps_itself(function: Function) -> bool:
    owner = function.owner
    own = [each for name, each in owner.methods.items() if name != function.name] if owner is not None else []
    return any(
        call.tail in {"lr_schedulers", "lr_scheduler_step"} or (call.tail == "step" and "sched" in call.receiver)
        for each in own
        for call in each.calls
    ) or (owner is not None and "automatic_optimization" in ast.unparse(owner.node))


def _schedulers(value: ast.expr | None, function: Function) -> Iterator[ast.expr]:
    """Yield what a return of `configure_optimizers` gives as schedulers, without settings of their own."""
    if isinstance(value, ast.Name):
        made = function.last_assignment(value.id, value.lineno)
        value = made.value if made is not None and not made.is_unpacked else value
    if isinstance(value, ast.Tuple) and len(value.elts) == 2:  # noqa: PLR2004 - optimizers and schedulers
        given = value.elts[1]
        yield from given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
    elif isinstance(value, ast.Dict):
        for key, held in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in {"lr_scheduler", "scheduler"}:
                yield from _schedulers(held, function) if isinstance(held, ast.Dict) else [held]


def _counts_batches(call: Call) -> bool:
    """Return whether the length of a schedule counts batches."""
    if call.tail not in _LENGTHS or not resolve(dotted(call.node.func), call.function).startswith(
        ("torch.", "transformers.")
    ):
        return False
    if call.tail == "OneCycleLR" and call.argument(4, "steps_per_epoch") is not None:
        given = call.argument(4, "steps_per_epoch")
        return not (isinstance(given, ast.Constant) and given.value == 1)
    name, position = _LENGTHS[call.tail]
    length = call.argument(position, name)
    if isinstance(length, ast.Name):
        made = call.function.last_assignment(length.id, call.line)
        length = made.value if made is not None and not made.is_unpacked else length
    if length is None:
        return False
    text = ast.unparse(length)
    if call.tail.startswith("get_"):
        # These count steps of the optimizer, by the name of the argument.
        return not isinstance(length, ast.Constant) and ("epoch" not in text or "len(" in text)
    return any(part in text for part in _STEPS[:4]) and not any(
        isinstance(each, ast.Call) and tail_of(dotted(each.func)) == "len" and "loader" not in ast.unparse(each)
        for each in walk(length)
    )
