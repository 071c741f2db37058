"""ESP405: gradients are filled with zeros rather than let go."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import FileTables


class GradientsZeroedInPlace(FileRule):
    """A `zero_grad(set_to_none=False)`.

    ## Why it costs
    It writes zeros over every gradient and keeps their memory through the forward; the backward then adds to the
    zeros instead of writing. The default, since torch 2.0, drops the gradients.

    ## When it is right
    Something reads `.grad` between the steps, or gradients must stay at one address (CUDA graphs captured by hand).

    ## Sources
    PyTorch documentation of `torch.optim.Optimizer.zero_grad`: the parameter `set_to_none`.
    """

    code, name = "ESP405", "gradients-zeroed-in-place"
    severity, category = Severity.SUGGESTION, Category.PERFORMANCE
    bad = "optimizer.zero_grad(set_to_none=False)\n"
    good = "optimizer.zero_grad()\n"

    def look(self, file: FileTables) -> Iterator[Hit]:
        """Yield the calls that ask for zeros."""
        for call in file.calls_ending("zero_grad"):
            asked = call.argument(0, "set_to_none")
            if call.receiver and isinstance(asked, ast.Constant) and asked.value is False:
                yield self.hit(
                    call.node,
                    "gradients are filled with zeros and kept, instead of being dropped",
                    remedy="leave `set_to_none` at its default",
                )
