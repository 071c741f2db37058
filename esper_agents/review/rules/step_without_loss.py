"""ESP119: the training step of a Lightning module returns nothing that can be trained."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Class, FileTables, Function

_MODULES = frozenset({"LightningModule"})
_CUTTING = frozenset({"item", "detach", "numpy", "tolist"})
_LOSS = "loss"


class StepWithoutLoss(Rule):
    """A `training_step` of a Lightning module that returns no loss, or one without its graph.

    ## Why it costs
    The trainer sends backward what `training_step` returns. If it returns `None`, the batch is skipped: the epochs go
    by, the logs show a loss, and no weight changes. A loss from `.item()` raises, and one from `.detach()` raises
    that it does not require gradients.

    ## When it is right
    Modules with `automatic_optimization = False`, which call `manual_backward`. A step that returns a loss on some way
    and `None` on others skips batches on purpose.

    ## Sources
    Lightning documentation of `LightningModule.training_step`: `None` skips to the next batch.
    """

    code, name = "ESP119", "step-without-loss"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import lightning as L\n"
        "\n"
        "\n"
        "class Classifier(L.LightningModule):\n"
        "    def training_step(self, batch, batch_idx):\n"
        "        x, y = batch\n"
        "        loss = self.criterion(self.model(x), y)\n"
        '        self.log("train_loss", loss)\n'
        "\n"
        "    def configure_optimizers(self):\n"
        "        return make_optimizer(self.parameters())\n"
    )
    good = bad.replace(
        '        self.log("train_loss", loss)\n', '        self.log("train_loss", loss)\n        return loss\n'
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the training steps that return nothing to train."""
        for owner in file.classes:
            step = owner.methods.get("training_step")
            if step is None or not _is_lightning(owner, index) or _trains_itself(owner, index):
                continue
            if not step.returns or all(_is_none(each.value) for each, _ in step.returns):
                if _computes_loss(step) and not _is_generator(step):
                    yield self.hit(
                        step.node,
                        "`training_step` returns nothing, so the trainer skips every batch and trains no weight",
                        remedy="return the loss",
                        confidence=Confidence.HIGH,
                        basis=SEEN,
                    )
                continue
            for statement, _ in step.returns:
                cut = _cut(statement.value, step)
                if cut:
                    yield self.hit(
                        statement,
                        f"`training_step` returns the loss without its graph (`{cut}`): the trainer cannot send it "
                        "backward",
                        remedy="return the loss itself; the trainer detaches what it logs",
                        basis=SEEN,
                    )


def _is_lightning(owner: Class, index: ProjectIndex) -> bool:
    return any(tail_of(base) in _MODULES for base in index.lineage(owner).foreign)


def _trains_itself(owner: Class, index: ProjectIndex) -> bool:
    """Return whether a module sends its losses backward itself, or leaves the step to another class."""
    text = " ".join(ast.unparse(each.node) for each in index.lineage(owner).classes)
    return "automatic_optimization" in text or "manual_backward" in text or "toggle_optimizer" in text


def _computes_loss(step: Function) -> bool:
    """Return whether a step does more than to hand its batch on: it computes or logs a loss."""
    if any(call.receiver == "super()" for call in step.calls):
        return False
    body = step.node.body
    is_stub = len(body) <= 1 or any(isinstance(each, ast.Raise) for each in body)
    return not is_stub and any(_LOSS in path for path in step.assignments)


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _is_generator(step: Function) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(step.node))


def _cut(value: ast.expr | None, step: Function) -> str:
    """Return the call that takes the graph of a returned loss away; empty if none does."""
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        value = next((held for key, held in pairs if isinstance(key, ast.Constant) and key.value == _LOSS), None)
    if isinstance(value, ast.Name):
        made = step.last_assignment(value.id, value.lineno)
        value = made.value if made is not None and not made.is_unpacked and made.block is step.block else value
    is_method = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    if is_method and isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _CUTTING:
        return f".{tail_of(dotted(value.func))}()"
    return ""
