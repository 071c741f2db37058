"""ESP250: a scheduler that waits for a plateau of a loss in the mode for a score, or the other way round."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, Rule
from esper_agents.review.training import makers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"
_FALLING = pattern(
    r"(?:\w+_)?(?:loss|losses|mse|mae|rmse|nll|perplexity|ppl|cer|wer|error|err|eer|fid)(?:_(?:avg|mean|val|epoch))?"
)
_RISING = pattern(
    r"(?:\w+_)?(?:acc|accuracy|f1|f1_score|auc|auroc|roc_auc|iou|miou|dice|map|mAP|psnr|ssim|bleu|precision|recall|r2"
    r"|top1|reward|kappa)(?:_(?:avg|mean|val|epoch|score))?"
)
_CHANGING = frozenset({"item", "cpu", "detach", "float", "mean", "numpy"})


class SchedulerModeAgainstMetric(Rule):
    """A `ReduceLROnPlateau` with `mode="max"` that is stepped with a loss, or with `mode="min"` and an accuracy.

    ## Why it costs
    In the wrong mode every improvement counts as none: the learning rate is cut each time the patience is over, while
    the model still gets better, and training stops early at a learning rate of almost nothing.

    ## When it is right
    `min` for what falls, `max` for what rises. A value that is negated or subtracted from 1 is not reported.

    ## Sources
    PyTorch documentation of `torch.optim.lr_scheduler.ReduceLROnPlateau` (`mode`).
    """

    code, name = "ESP250", "scheduler-mode-against-metric"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        'scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max")\n'
        "for epoch in range(10):\n"
        "    train(model, optimizer)\n"
        "    val_loss = validate(model)\n"
        "    scheduler.step(val_loss)\n"
    )
    good = bad.replace('mode="max"', 'mode="min"')

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the schedulers whose mode does not fit what they are stepped with."""
        for call in index.calls_ending("step") if file.calls_to(_PLATEAU) else ():
            given = call.argument(0, "metrics")
            held = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
            if given is None or held is None:
                continue
            for origin in makers(held, call.function, call.line, index):
                made = next((each for each in file.calls_to(_PLATEAU) if each.node is origin.value), None)
                mode, rises = (_mode(made), _rises(given)) if made is not None else (None, None)
                if made is None or mode is None or rises is None or rises == (mode == "max"):
                    continue
                metric = ast.unparse(given)
                where = f"line {call.line}"
                if call.function.file is not file:
                    where = f"{call.function.file.path}:{call.line}"
                yield self.hit(
                    made.node,
                    f'this scheduler has `mode="{mode}"` and is stepped with `{metric}` ({where}), which '
                    f"{'rises' if rises else 'falls'} as the model gets better",
                    remedy=f'write `mode="{"max" if rises else "min"}"`',
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: from the name of the metric",
                )
                break


def _mode(made: Call) -> str | None:
    given = made.argument(1, "mode")
    if given is None:
        return None if made.has_splat() else "min"
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None


def _rises(given: ast.expr) -> bool | None:
    """Return whether a metric rises as the model gets better, by its name; None if that is not clear."""
    value = given
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _CHANGING:
        value = value.func.value
    name = ""
    if isinstance(value, ast.Name | ast.Attribute):
        name = tail_of(dotted(value))
    elif isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        name = str(value.slice.value).replace("/", "_").replace("-", "_")
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return _rises(value.left)
    is_falling, is_rising = _FALLING.fullmatch(name.lower()), _RISING.fullmatch(name)
    return None if bool(is_falling) == bool(is_rising) else bool(is_rising)
