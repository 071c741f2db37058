"""ESP502: automatic mixed precision by its old names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import Rewrite, Rule

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_TRIED = pattern(r"^\s+from torch\.(cuda|cpu)\.amp import", re.MULTILINE)
# What the old contexts take in these places; the new ones have them in another order.
_PLACES = ("enabled", "dtype", "cache_enabled")
_INSTEAD = {
    "torch.cuda.amp.autocast": 'torch.amp.autocast("cuda", ...)',
    "torch.cuda.amp.autocast_mode.autocast": 'torch.amp.autocast("cuda", ...)',
    "torch.cuda.amp.GradScaler": 'torch.amp.GradScaler("cuda", ...)',
    "torch.cuda.amp.grad_scaler.GradScaler": 'torch.amp.GradScaler("cuda", ...)',
    "torch.cpu.amp.autocast": 'torch.amp.autocast("cpu", ...)',
    "torch.cpu.amp.GradScaler": 'torch.amp.GradScaler("cpu", ...)',
}
_FUNCTIONS = {
    f"torch.cuda.amp.{place}{name}": f'torch.amp.{name}(..., device_type="cuda")'
    for name in ("custom_fwd", "custom_bwd")
    for place in ("", "autocast_mode.")
}


class LegacyAmp(Rule):
    """`autocast`, `GradScaler`, `custom_fwd` or `custom_bwd` from `torch.cuda.amp` or `torch.cpu.amp`.

    ## Why it costs
    The names are deprecated since torch 2.4: every use prints a FutureWarning, and they tie the code to one kind of
    device.

    ## When it is right
    The code must run with torch before 2.3 as well: where the project's settings allow that, and under a `try` or an
    `if` that picks the name, it is not reported.

    ## Sources
    PyTorch documentation of `torch.amp`, on the deprecation of `torch.cuda.amp` and `torch.cpu.amp`.
    """

    code, name = "ESP502", "legacy-amp"
    severity, category = Severity.SUGGESTION, Category.COMPILE
    bad = "from torch.cuda.amp import autocast\n\nwith autocast():\n    loss = step(x)\n"
    good = 'import torch\n\nwith torch.amp.autocast("cuda"):\n    loss = step(x)\n'

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the uses of old names."""
        used: list[tuple[ast.AST, str]]
        used = [(each.node, each.name) for each in file.calls_to(*_INSTEAD, *_FUNCTIONS) if not _is_chosen(each)]
        used += _decorators(file) if "custom_" in file.text else []
        asked = index.torch_asked_by(file) if used else None
        for node, name in used:
            since = "2.4" if name in _FUNCTIONS else "2.3"
            if asked is None or (asked.reaches("2.4") and asked.starts_at(since)):
                instead = (_INSTEAD | _FUNCTIONS)[name]
                yield self.hit(
                    node,
                    f"`{name}` is deprecated since torch 2.4",
                    remedy=f"write `{instead}` (torch {since} and later)",
                )

    def fix(self, call: Call, claim: Diagnostic) -> Rewrite | None:  # noqa: ARG002 - whatever it says
        """Return the call by its new name, with the device first."""
        instead = _INSTEAD.get(call.name)
        # An import that stands in some branch may be one of two, and both go by one name.
        if instead is None or _is_chosen(call) or _TRIED.search(call.function.file.text):
            return None
        callee, _, rest = instead.partition("(")
        return Rewrite(callee, _PLACES if callee.endswith("autocast") else (), first=rest.partition(",")[0])


def _decorators(file: FileTables) -> list[tuple[ast.AST, str]]:
    """Return the old names that stand above a function without a call."""
    return [
        (node, path)
        for function in file.functions
        for path, node in zip(function.decorators, getattr(function.node, "decorator_list", ()), strict=False)
        if path in _FUNCTIONS
    ]


def _is_chosen(call: Call) -> bool:
    """Return whether the code picks between the old name and the new one."""
    picking = {BlockKind.TRY, BlockKind.EXCEPT, BlockKind.IF, BlockKind.ELSE}
    in_branch = any(each.kind in picking for each in call.block.chain())
    return (in_branch or _TRIED.search(call.function.file.text) is not None) and "torch.amp" in call.function.file.text
