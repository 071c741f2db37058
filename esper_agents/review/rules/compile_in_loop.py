"""ESP504: the same thing is wrapped for compilation again in every round of a loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import is_now_and_then, names_in
from esper_agents.review.names import root_of
from esper_agents.review.rule import FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, Call, FileTables


class CompileInLoop(FileRule):
    """A `torch.compile` inside a loop, of something that the loop does not change.

    ## Why it costs
    Each call makes a new wrapper and checks it against what was compiled before: about 0.7 ms a round with torch 2.13,
    against 0.1 ms for a call of what is already wrapped. The compiled code itself is found again, unless `backend` is a
    function made anew: then every round compiles, until the recompile limit is reached and the code runs eagerly.

    ## When it is right
    The loop is over what is compiled, such as the layers of a model or several settings: then what is handed to
    `torch.compile` depends on the loop's own names, and nothing is reported.

    ## Sources
    PyTorch documentation of `torch.compile`; its troubleshooting page, on recompilation.
    """

    code, name = "ESP504", "compile-in-loop"
    severity, category = Severity.SUGGESTION, Category.COMPILE
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader):\n"
        "    for x in loader:\n"
        "        fast = torch.compile(model)\n"
        "        fast(x)\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader):\n"
        "    fast = torch.compile(model)\n"
        "    for x in loader:\n"
        "        fast(x)\n"
    )

    def look(self, file: FileTables) -> Iterator[Hit]:
        """Yield what is compiled in a loop without depending on it."""
        for call in file.calls_to("torch.compile"):
            loop = call.block.loop
            if (
                loop is not None
                and call.node.args
                and not _depends_on(call, loop)
                and not is_now_and_then(call.block, loop)
            ):
                yield self.hit(
                    call.node,
                    f"`{ast.unparse(call.node.args[0])}` is wrapped anew by `torch.compile` in every round of the loop",
                    remedy="compile it once, before the loop",
                )


def _depends_on(call: Call, loop: Block) -> bool:
    """Return whether what is compiled, or how, depends on names that a loop around binds."""
    read = {root_of(path) for path in names_in(call.node)}
    bound = {root_of(target) for outer in call.block.loops() for target in outer.targets}
    made = {
        root_of(target)
        for target, assignments in call.function.assignments.items()
        if any(each.block.within(loop) and each.statement is not call.statement for each in assignments)
    }
    inner = any(
        each.outer is not None and each.outer.within(loop) and each.name in read for each in call.function.inner
    )
    return bool(read & (bound | made)) or inner
