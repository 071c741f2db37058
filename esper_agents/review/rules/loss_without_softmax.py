"""ESP219: raw scores are handed to a loss that expects probabilities or their logarithms."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import Activated, Activation, first_argument
from esper_agents.review.called_losses import called_loss, calls_of_losses
from esper_agents.review.endings import activation_of, last_operation
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_LOGARITHMS = "logarithms of probabilities"
_EXPECTED = {
    "nll_loss": _LOGARITHMS,
    "kl_div": _LOGARITHMS,
    "binary_cross_entropy": "probabilities",
    "log target": f"{_LOGARITHMS}, as `log_target=True` says",
}
_REMEDIES = {
    "nll_loss": "use `F.cross_entropy`, or apply `F.log_softmax` first",
    "kl_div": "apply `F.log_softmax` to the first argument",
    "log target": "omit `log_target`, or apply `F.log_softmax` to the target",
    "binary_cross_entropy": "use `F.binary_cross_entropy_with_logits`",
}
_LOGS = frozenset({Activation.LOG_SOFTMAX, Activation.LOG_SIGMOID})
# `kl_div(input, target, size_average, reduce, reduction, log_target)`.
_OPTIONS_OF_DIVERGENCE = 5


class LossWithoutSoftmax(Rule):
    """Raw scores where a loss expects probabilities, or logarithms of probabilities as the target of `kl_div`.

    ## Why it costs
    `nll_loss` takes the logarithms of probabilities and returns the negated one of the right class. Given the raw
    scores of a linear layer it has no lower bound: the scores of right classes grow without limit, the loss turns
    negative, and the other classes get no gradient. `kl_div` of raw scores is no divergence, and its target holds
    probabilities unless `log_target=True`: negative elements are taken as 0, and the loss is silently 0 for them.
    `binary_cross_entropy` refuses scores outside of 0 to 1, or fails on the device.

    ## When it is right
    A model that ends with `log_softmax` before `nll_loss`, or with a sigmoid before `binary_cross_entropy`; raw scores
    before `cross_entropy` and `binary_cross_entropy_with_logits`. Reported only if every way out of the model ends
    with a linear layer or a convolution.

    ## Sources
    PyTorch documentation of `torch.nn.NLLLoss`, `torch.nn.BCELoss` and `torch.nn.KLDivLoss`: what each expects as
    input and as target; pytorch/pytorch issue 69230 on targets of `kl_div` below 0.
    """

    code, name = "ESP219", "loss-without-softmax"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.nn as nn\n"
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.head = nn.Linear(8, 3)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.head(x)\n"
        "\n"
        "\n"
        "def step(x, y):\n"
        "    return F.nll_loss(Net()(x), y)\n"
    )
    good = (
        "import torch.nn as nn\n"
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.head = nn.Linear(8, 3)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.head(x)\n"
        "\n"
        "\n"
        "def step(x, y):\n"
        "    return F.cross_entropy(Net()(x), y)\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield each loss that is given raw scores, and each divergence from logarithms."""
        for call in calls_of_losses(file, index):
            loss, made = called_loss(call, index)
            scores = first_argument(call) if loss in _EXPECTED else None
            if scores is None:
                continue
            found = last_operation(scores, call.function, call.line, index)
            if found is not None and found.activation is Activation.SCORES:
                yield self._found(call, f"`{loss}` is given raw scores", found, loss)
            elif loss == "kl_div" and _is_unlike_softmax(found):
                if not _says_log_target(call, made):
                    yield from self._target(call, index)
                elif _takes_log_target(call, made):
                    yield from self._plain_target(call, index)

    def _target(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        target = call.argument(1, "target")
        found = activation_of(target, call.function, call.line, index) if target is not None else None
        if found is not None and found.activation in _LOGS:
            yield self._found(call, f"the target of `kl_div` is the result of a `{found.activation}`", found, "")

    def _plain_target(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield a divergence that was made for logarithms and is given probabilities as its target."""
        target = call.argument(1, "target")
        found = activation_of(target, call.function, call.line, index) if target is not None else None
        if found is not None and found.activation is Activation.SOFTMAX:
            yield self._found(call, "the target of `kl_div` is the result of a `softmax`", found, "log target")

    def _found(self, call: Call, what: str, found: Activated, loss: str) -> RuleMatch:
        here = found.function is call.function
        where = f"line {found.line}" if here else f"{found.function.file.path}:{found.line}"
        expected = _EXPECTED.get(loss, "probabilities unless `log_target=True`")
        return self.hit(
            call.node,
            f"{what} ({where}), while it takes {expected}",
            remedy=_REMEDIES.get(loss, "pass `log_target=True`"),
            confidence=Confidence.HIGH if here else Confidence.MODERATE,
            basis=SEEN if here else FOLLOWED,
        )


def _is_unlike_softmax(found: Activated | None) -> bool:
    """Return whether the first argument is no softmax or sigmoid, which another rule reports."""
    return found is None or found.activation in _LOGS


def _says_log_target(call: Call, made: ast.Call) -> bool:
    """Return whether a call or the construction of its module may say what its target is."""
    keywords = [each.arg for each in (*call.node.keywords, *made.keywords)]
    return None in keywords or "log_target" in keywords or len(call.node.args) > _OPTIONS_OF_DIVERGENCE


def _takes_log_target(call: Call, made: ast.Call) -> bool:
    """Return whether a call or the construction of its module says that the target holds logarithms."""
    given = [each.value for each in (*call.node.keywords, *made.keywords) if each.arg == "log_target"]
    return bool(given) and all(isinstance(each, ast.Constant) and each.value is True for each in given)
