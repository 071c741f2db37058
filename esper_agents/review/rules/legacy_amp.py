"""ESP502: automatic mixed precision by its old names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import FileRule
from esper_agents.review.tables import BlockKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Call, FileTables

_TRIED = re.compile(r"^\s+from torch\.(cuda|cpu)\.amp import", re.MULTILINE)
_INSTEAD = {
    "torch.cuda.amp.autocast": 'torch.amp.autocast("cuda", ...)',
    "torch.cuda.amp.autocast_mode.autocast": 'torch.amp.autocast("cuda", ...)',
    "torch.cuda.amp.GradScaler": 'torch.amp.GradScaler("cuda", ...)',
    "torch.cuda.amp.grad_scaler.GradScaler": 'torch.amp.GradScaler("cuda", ...)',
    "torch.cpu.amp.autocast": 'torch.amp.autocast("cpu", ...)',
    "torch.cpu.amp.GradScaler": 'torch.amp.GradScaler("cpu", ...)',
}


class LegacyAmp(FileRule):
    """`autocast` or `GradScaler` from `torch.cuda.amp` or `torch.cpu.amp`.

    ## Why it costs
    The names are deprecated since torch 2.4: every use prints a FutureWarning, and they tie the code to one kind of
    device.

    ## When it is right
    The code must run with torch before 2.3 as well: under a `try` or an `if` that picks the name it is not reported.

    ## Sources
    PyTorch documentation of `torch.amp`, on the deprecation of `torch.cuda.amp` and `torch.cpu.amp`.
    """

    code, name = "ESP502", "legacy-amp"
    severity, category = Severity.SUGGESTION, Category.COMPILE
    bad = "from torch.cuda.amp import autocast\n\nwith autocast():\n    loss = step(x)\n"
    good = 'import torch\n\nwith torch.amp.autocast("cuda"):\n    loss = step(x)\n'

    def look(self, file: FileTables) -> Iterator[Hit]:
        """Yield the uses of old names."""
        for call in file.calls_to(*_INSTEAD):
            if not _is_chosen(call):
                yield self.hit(
                    call.node,
                    f"`{call.name}` is deprecated since torch 2.4",
                    remedy=f"write `{_INSTEAD[call.name]}`",
                )


def _is_chosen(call: Call) -> bool:
    """Return whether the code picks between the old name and the new one."""
    picking = {BlockKind.TRY, BlockKind.EXCEPT, BlockKind.IF, BlockKind.ELSE}
    in_branch = any(each.kind in picking for each in call.block.chain())
    return (in_branch or _TRIED.search(call.function.file.text) is not None) and "torch.amp" in call.function.file.text
