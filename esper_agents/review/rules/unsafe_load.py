"""ESP901: a checkpoint is unpickled, so whoever wrote it may run code here."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.rule import INFERRED, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import FileTables


class UnsafeLoad(FileRule):
    """A `torch.load` with `weights_only=False`, or one that leaves the choice to the installed torch.

    ## Why it costs
    Without `weights_only` a checkpoint is a pickle, and a pickle runs whatever code its author put into it. Since
    torch 2.6 the default is safe; on older versions the same line runs code.

    ## When it is right
    The file was written by the same program on the same machine, or its digest is checked first. With torch 2.6 or
    later a plain `torch.load(path)` is safe, and the suggestion can be ignored.

    ## Sources
    PyTorch documentation of `torch.load`, its warning; PyTorch 2.6 release notes on the default of `weights_only`.
    """

    code, name = "ESP901", "unsafe-load"
    severity, category = Severity.WARNING, Category.SECURITY
    bad = 'import torch\n\nstate = torch.load("model.pt", weights_only=False)\n'
    good = 'import torch\n\nstate = torch.load("model.pt", weights_only=True)\n'

    def look(self, file: FileTables) -> Iterator[Hit]:
        """Yield the loads that may run code."""
        for call in file.calls_to("torch.load"):
            asked = next((each.value for each in call.node.keywords if each.arg == "weights_only"), None)
            if isinstance(asked, ast.Constant) and asked.value is False:
                yield self.hit(
                    call.node,
                    "this load runs whatever code the file holds",
                    remedy="write `weights_only=True`, and allow what else is needed by `add_safe_globals`",
                )
            elif asked is None and not call.has_splat():
                yield self.hit(
                    call.node,
                    "with torch before 2.6 this load runs whatever code the file holds; since 2.6 the default is safe",
                    remedy="write `weights_only=True`, or require torch 2.6",
                    severity=Severity.SUGGESTION,
                    confidence=Confidence.LOW,
                    basis=f"{INFERRED}: the installed version decides",
                )
