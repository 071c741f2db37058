"""ESP201: probabilities are handed to a loss that expects scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import Activated, Activation, first_argument
from esper_agents.review.called_losses import called_loss, calls_of_losses
from esper_agents.review.endings import activation_of
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

# What each loss does to what it is given, and which activation before it is one too many.
_WRONG = {
    ("cross_entropy", Activation.SOFTMAX): Severity.CRITICAL,
    ("cross_entropy", Activation.SIGMOID): Severity.CRITICAL,
    ("cross_entropy", Activation.LOG_SOFTMAX): Severity.SUGGESTION,
    ("binary_cross_entropy_with_logits", Activation.SIGMOID): Severity.CRITICAL,
    ("binary_cross_entropy_with_logits", Activation.SOFTMAX): Severity.CRITICAL,
    ("binary_cross_entropy_with_logits", Activation.LOG_SIGMOID): Severity.CRITICAL,
    ("nll_loss", Activation.SOFTMAX): Severity.CRITICAL,
    ("nll_loss", Activation.SIGMOID): Severity.CRITICAL,
    ("binary_cross_entropy", Activation.LOG_SOFTMAX): Severity.CRITICAL,
    ("binary_cross_entropy", Activation.LOG_SIGMOID): Severity.CRITICAL,
    ("kl_div", Activation.SOFTMAX): Severity.CRITICAL,
    ("kl_div", Activation.SIGMOID): Severity.CRITICAL,
}
_EXPECTED = {"nll_loss": "logarithms", "kl_div": "logarithms", "binary_cross_entropy": "probabilities"}
_REMEDIES = {
    "nll_loss": "apply `log_softmax` instead",
    "kl_div": "apply `log_softmax` instead",
    "binary_cross_entropy": "use `binary_cross_entropy_with_logits` on the raw scores",
}
_SWAP = "swap the two arguments: the first is the logarithms of the predictions, the second the target"
_LOGARITHMS = frozenset({Activation.LOG_SOFTMAX, Activation.LOG_SIGMOID})


class SoftmaxBeforeLoss(Rule):
    """A softmax or sigmoid in front of a loss that applies its own, or that expects logarithms.

    ## Why it costs
    `cross_entropy` takes raw scores and applies `log_softmax` itself. Given probabilities it squeezes them a second
    time: the loss cannot fall below a floor, gradients shrink, and the model learns slowly and less, without any
    error. The same goes for a sigmoid before `binary_cross_entropy_with_logits`, and for a softmax without logarithm
    before `nll_loss` or as the first argument of `kl_div`, and for logarithms before `binary_cross_entropy`.

    ## When it is right
    `nll_loss` after `log_softmax`; `binary_cross_entropy` after a sigmoid. `log_softmax` before `cross_entropy`
    changes nothing, because applying it twice is applying it once: it is reported as a suggestion, for the work it
    wastes.

    ## Sources
    PyTorch documentation of `torch.nn.CrossEntropyLoss`, `torch.nn.BCEWithLogitsLoss`, `torch.nn.NLLLoss` and
    `torch.nn.KLDivLoss`: what each expects as input.
    """

    code, name = "ESP201", "softmax-before-loss"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def step(model, x, y):\n"
        "    probabilities = F.softmax(model(x), dim=-1)\n"
        "    return F.cross_entropy(probabilities, y)\n"
    )
    good = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def step(model, x, y):\n"
        "    return F.cross_entropy(model(x), y)\n"
        "\n"
        "\n"
        "def other_step(model, x, y):\n"
        "    return F.nll_loss(F.log_softmax(model(x), dim=-1), y)\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield each loss whose input went through an activation that is one too many."""
        for call in calls_of_losses(file, index):
            scores = first_argument(call)
            loss, _ = called_loss(call, index)
            found = activation_of(scores, call.function, call.line, index) if scores is not None and loss else None
            if found is not None and (severity := _WRONG.get((loss, found.activation))) is not None:
                yield self._found(call, loss, found, severity, is_swapped=_is_swapped(call, loss, index))

    def _found(self, call: Call, loss: str, found: Activated, severity: Severity, *, is_swapped: bool) -> RuleMatch:
        here = found.function is call.function
        where = f"on line {found.line}" if here else f"in {found.function.file.path}:{found.line}"
        wasteful = severity is Severity.SUGGESTION
        unlike = f"while it takes {_EXPECTED[loss]}" if loss in _EXPECTED else "so the loss sees no scores"
        unlike += ", and the target is given as logarithms" if is_swapped else ""
        effect = "which changes nothing but costs time" if wasteful else unlike
        return self.hit(
            call.node,
            f"`{loss}` is given the result of a `{found.activation}` ({where}), {effect}",
            remedy=_SWAP if is_swapped else _REMEDIES.get(loss, f"hand the raw scores to `{loss}`"),
            confidence=Confidence.HIGH if here else Confidence.MODERATE,
            basis=SEEN if here else FOLLOWED,
            severity=severity,
        )


def _is_swapped(call: Call, loss: str, index: ProjectIndex) -> bool:
    """Return whether the target of a divergence is given as logarithms."""
    target = call.argument(1, "target") if loss == "kl_div" else None
    found = activation_of(target, call.function, call.line, index) if target is not None else None
    return found is not None and found.activation in _LOGARITHMS
