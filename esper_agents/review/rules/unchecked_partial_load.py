"""ESP203: weights are loaded loosely, and nobody looks at what was left out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted
from esper_agents.review.rule import FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Call, FileTables


class UncheckedPartialLoad(FileRule):
    """A `load_state_dict(..., strict=False)` whose report of missing and unexpected keys is thrown away.

    ## Why it costs
    A renamed layer or a `module.` prefix makes every key miss. With `strict=False` the model then keeps its random
    weights, the call returns as if all were well, and the only trace is in the value it returns.

    ## When it is right
    Parts are left out on purpose, such as a new head: then the returned `missing_keys` are compared with what was
    meant. Any use of the returned value counts.

    ## Sources
    PyTorch documentation of `torch.nn.Module.load_state_dict`: the parameter `strict` and the returned named tuple.
    """

    code, name = "ESP203", "unchecked-partial-load"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = "def restore(model, state):\n    model.load_state_dict(state, strict=False)\n"
    good = (
        "def restore(model, state):\n"
        "    missing, unexpected = model.load_state_dict(state, strict=False)\n"
        "    assert not unexpected and set(missing) <= {'head.weight', 'head.bias'}\n"
    )

    def look(self, file: FileTables) -> Iterator[Hit]:
        """Yield the loose loads whose result is not used."""
        for call in file.calls_ending("load_state_dict"):
            strict = call.argument(1, "strict")
            is_loose = isinstance(strict, ast.Constant) and strict.value is False
            if is_loose and call.receiver not in {"", "super()"} and _is_thrown_away(call):
                yield self.hit(
                    call.node,
                    "keys that did not match are neither loaded nor looked at",
                    remedy="keep the returned value and check its `missing_keys` and `unexpected_keys`",
                )


def _is_thrown_away(call: Call) -> bool:
    if isinstance(call.parent, ast.Expr):
        return True
    if not isinstance(call.parent, ast.Assign):
        return False
    return all(isinstance(target, ast.Name) and dotted(target) == "_" for target in call.parent.targets)
