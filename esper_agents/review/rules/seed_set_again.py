"""ESP288: a constant seed is set for each sample, forward or step, so that all draw the same numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import SEEN, FileRule
from esper_agents.review.tables import Purpose
from esper_agents.review.training import innermost_training_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SEEDING = (
    "torch.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "numpy.random.seed",
    "random.seed",
)
_SAMPLES = frozenset({"__getitem__", "__iter__", "forward", "training_step", "collate_fn"})


class SeedSetAgain(FileRule):
    """`torch.manual_seed(0)` in a training loop, a `forward` or a `__getitem__`.

    ## Why it costs
    Each step repeats the same dropout mask, the same noise and the same augmentation, and the generator of the whole
    program starts again. Training runs, and the randomness that it relies on is gone.

    ## When it is right
    The seed depends on the sample or step, as in `torch.manual_seed(index)`, or a comparison wants equal numbers. Tests
    are not reported.

    ## Sources
    PyTorch notes, "Reproducibility", on random number generators.
    """

    code, name = "ESP288", "seed-set-again"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "for x, y in loader:\n"
        "    torch.manual_seed(0)\n"
        "    optimizer.zero_grad()\n"
        "    criterion(model(x), y).backward()\n"
        "    optimizer.step()\n"
    )
    good = (
        "import torch\n"
        "\n"
        "torch.manual_seed(0)\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    criterion(model(x), y).backward()\n"
        "    optimizer.step()\n"
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the constant seeds that are set again and again."""
        if file.purpose is Purpose.TEST:
            return
        loops = innermost_training_loops(file)
        for call in file.calls_to(*_SEEDING):
            if not isinstance(call.argument(0, "seed"), ast.Constant) or not _is_whole(call):
                continue
            is_in_loop = any(call.block.within(loop) for loop in loops)
            if is_in_loop or (call.function.owner is not None and call.function.name in _SAMPLES):
                often = "training step" if is_in_loop else f"call of `{call.function.name}`"
                yield self.hit(
                    call.node,
                    f"the seed is set to a constant in every {often}: each draws the same random numbers",
                    remedy="set it once, before the loop",
                    basis=SEEN,
                )


def _is_whole(call: Call) -> bool:
    """Return whether a call is a statement of its own: a generator that `torch.Generator()` made is seeded apart."""
    return isinstance(call.parent, ast.Expr)
