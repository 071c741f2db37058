"""ESP901: a checkpoint is unpickled, so whoever wrote it may run code here."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.rule import INFERRED, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Call, FileTables

_FROM_URL = ("torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url")
_PICKLES = ("pickle.load", "pickle.Unpickler", "cPickle.load", "dill.load", "cloudpickle.load", "joblib.load")
_MODEL_FILE = re.compile(r"model|checkpoint|ckpt|weights|state_?dict|\.pth?\b", re.IGNORECASE)


class UnsafeLoad(FileRule):
    """A checkpoint that is unpickled: by `weights_only=False`, by `pickle.load`, or as the installed torch chooses.

    ## Why it costs
    Without `weights_only` a checkpoint is a pickle, and a pickle runs whatever code its author put into it. Since torch
    2.6 the default is safe; on older versions the same line runs code.

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
        yield from self._fetched(file)
        yield from self._unpickled(file)
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

    def _fetched(self, file: FileTables) -> Iterator[Hit]:
        for call in file.calls_to(*_FROM_URL):
            said = {each.arg for each in call.node.keywords}
            if call.node.args and not said & {"weights_only", None}:
                yield self.hit(
                    call.node,
                    "this runs whatever code the downloaded file holds: here `weights_only` is off by default",
                    remedy="write `weights_only=True`, and `check_hash=True` where the name carries one",
                )

    def _unpickled(self, file: FileTables) -> Iterator[Hit]:
        for call in file.calls_to(*_PICKLES) if file.imports_torch else ():
            if _MODEL_FILE.search(_opened(call)) is not None:
                yield self.hit(
                    call.node,
                    "this runs whatever code the model file holds",
                    remedy="save a `state_dict` by `torch.save` and read it by `torch.load(..., weights_only=True)`",
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: that it is a model is said by the name of the file",
                )


def _opened(call: Call) -> str:
    """Return what a pickle is read from, as written: a path, or what was opened under that name."""
    source = call.argument(0, "file")
    if isinstance(source, ast.Name):
        made = call.function.last_assignment(source.id, call.line + 1)
        source = made.value if made is not None else source
    if isinstance(source, ast.Call):
        return " ".join(ast.unparse(each) for each in source.args[:1])
    return ast.unparse(source) if source is not None else ""
