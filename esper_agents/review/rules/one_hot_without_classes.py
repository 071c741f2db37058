"""ESP287: the width of a one-hot code is taken from the largest label of each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import SEEN, FileRule
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

_ONE_HOT = "torch.nn.functional.one_hot"


class OneHotWithoutClasses(FileRule):
    """`F.one_hot(labels)` without `num_classes`, in code that runs for each batch.

    ## Why it costs
    Without it the number of columns is one more than the largest label in this tensor. A batch without the last class
    gets a narrower code: losses raise or, where shapes broadcast, compute something else, once in many batches.

    ## When it is right
    All labels of a data set are coded at once. Only calls in a function or in a loop are reported, and not those of
    tests.

    ## Sources
    PyTorch documentation of `torch.nn.functional.one_hot`: with `num_classes=-1` it is inferred as one greater than the
    largest class value in the input.
    """

    code, name = "ESP287", "one-hot-without-classes"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def loss(scores, labels):\n"
        "    return F.mse_loss(scores.softmax(1), F.one_hot(labels).float())\n"
    )
    good = bad.replace("one_hot(labels)", "one_hot(labels, scores.size(1))")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the codes whose width depends on the labels."""
        if file.purpose is Purpose.TEST:
            return
        for call in file.calls_to(_ONE_HOT):
            is_repeated = not call.function.is_module or call.block.loop is not None
            if is_repeated and call.argument(1, "num_classes") is None and not call.has_splat():
                yield self.hit(
                    call.node,
                    "the number of columns is the largest label of this batch plus one, so it differs from batch to "
                    "batch",
                    remedy="pass `num_classes`",
                    basis=SEEN,
                )
