"""ESP258: an averaged model with batch norm is used without statistics of its own."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.batch_norms import has_batch_norm
from esper_agents.review.conditions import names_in
from esper_agents.review.names import dotted
from esper_agents.review.programs import reached_from, starts
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_AVERAGED = "torch.optim.swa_utils.AveragedModel"


class AveragedNormNotUpdated(Rule):
    """An `AveragedModel` of a network with batch norm that is evaluated without `update_bn`.

    ## Why it costs
    `AveragedModel` averages parameters, not buffers. Its batch norm keeps the statistics that the model had when the
    average was made, which fit neither the averaged weights nor the end of the training: the averaged model scores
    far worse than it is, often near chance.

    ## When it is right
    `torch.optim.swa_utils.update_bn(loader, averaged)` before the averaged model is used, or `use_buffers=True`.
    Networks without batch norm need neither and are not reported.

    ## Sources
    PyTorch documentation of `torch.optim.swa_utils`, "Taking care of batch normalization".
    """

    code, name = "ESP258", "averaged-norm-not-updated"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torchvision\n"
        "from torch.optim.swa_utils import AveragedModel\n"
        "\n"
        "model = torchvision.models.resnet18()\n"
        "averaged = AveragedModel(model)\n"
        "for epoch in range(10):\n"
        "    train(model)\n"
        "    averaged.update_parameters(model)\n"
        "print(evaluate(averaged))\n"
    )
    good = bad.replace("import AveragedModel\n", "import AveragedModel, update_bn\n").replace(
        "print(", "update_bn(loader, averaged)\nprint("
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield where averaged models are used without statistics of their own."""
        for call in file.calls_to(_AVERAGED):
            model = call.argument(0, "model")
            if model is None or call.argument(4, "use_buffers") is not None or call.has_splat():
                continue
            if not _has_norms(model, call, index) or _updates(call, index):
                continue
            used = _first_use(call)
            yield self.hit(
                used.node if used is not None else call.node,
                f"the batch norm of this averaged model (line {call.line}) has the statistics of the time when it was "
                "made: `AveragedModel` averages parameters only",
                remedy="call `torch.optim.swa_utils.update_bn(loader, averaged)` first, or pass `use_buffers=True`",
                confidence=Confidence.HIGH if used is not None else Confidence.MODERATE,
                basis=SEEN if used is not None else FOLLOWED,
            )


def _has_norms(model: ast.expr, call: Call, index: ProjectIndex) -> bool:
    found = index.origins(model, call.function, call.line)
    return bool(found) and all(has_batch_norm(each.value, each.function, index) for each in found)


def _updates(call: Call, index: ProjectIndex) -> bool:
    """Return whether the program of a call updates batch norm somewhere, or copies buffers by hand."""
    file = call.function.file
    files = {file}.union(*(reached_from(start, index) for start in starts(file, index)))
    return any("update_bn" in each.text or ".buffers()" in each.text or "bn_update" in each.text for each in files)


def _first_use(call: Call) -> Call | None:
    """Return the first call that uses an averaged model otherwise than to update it."""
    statement = call.statement
    if not isinstance(statement, ast.Assign):
        return None
    paths = {dotted(statement.targets[0])}
    if isinstance(statement.targets[0], ast.Tuple) and isinstance(statement.value, ast.Tuple):
        pairs = zip(statement.targets[0].elts, statement.value.elts, strict=False)
        paths = {dotted(target) for target, value in pairs if value is call.node}
    for each in call.function.calls:
        if each.line <= call.line or each.tail in {"update_parameters", "to", "cuda", "parameters", "train"}:
            continue
        given = {name for arg in each.node.args for name in names_in(arg)}
        if paths & given or each.path in paths or (each.receiver in paths and each.tail in {"eval", "state_dict"}):
            return each
    return None
