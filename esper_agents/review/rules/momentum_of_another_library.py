"""ESP241: the momentum of a batch norm is given as TensorFlow and Keras count it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

_NORMS = tuple(f"torch.nn.{kind}" for kind in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"))
_KEPT, _ALL = 0.9, 1.0


class MomentumOfAnotherLibrary(FileRule):
    """A batch norm with `momentum=0.99`, which in PyTorch is the weight of the newest batch.

    ## Why it costs
    PyTorch computes `running = (1 - momentum) * running + momentum * batch`, TensorFlow and Keras the other way round.
    With 0.99 the running statistics are those of the last batch: evaluation depends on which batch came last, and
    scores jump from epoch to epoch.

    ## When it is right
    Statistics of the last batch alone are wanted; `momentum=1.0` says so and is not reported.

    ## Sources
    PyTorch documentation of `torch.nn.BatchNorm2d`, note on momentum. Keras documentation of `BatchNormalization`,
    whose default is 0.99.
    """

    code, name = "ESP241", "momentum-of-another-library"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = "from torch import nn\n\nnorm = nn.BatchNorm2d(64, momentum=0.99)\n"
    good = bad.replace("0.99", "0.01")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the batch norms whose momentum is close to one."""
        for call in file.calls_to(*_NORMS):
            given = call.argument(2, "momentum")
            if given is None:
                continue
            made = call.function.last_assignment(ast.unparse(given), call.line) if isinstance(given, ast.Name) else None
            value = made.value if made is not None else given
            if isinstance(value, ast.Constant) and isinstance(value.value, float) and _KEPT <= value.value < _ALL:
                yield self.hit(
                    call.node,
                    f"in PyTorch `momentum={value.value}` keeps {round(100 * (1 - value.value), 1):g} % of the running "
                    "statistics in each batch: evaluation uses those of the last batch",
                    remedy=f"write `momentum={round(1 - value.value, 6):g}`",
                    basis=SEEN,
                )
