"""ESP201: probabilities are handed to a loss that expects scores."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import Activated, Activation, first_argument
from esper_agents.review.endings import activation_of
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_LOSSES = {
    "torch.nn.functional.cross_entropy": "cross_entropy",
    "torch.nn.functional.binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
    "torch.nn.functional.nll_loss": "nll_loss",
    "torch.nn.functional.kl_div": "kl_div",
    "torch.nn.CrossEntropyLoss": "cross_entropy",
    "torch.nn.BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "torch.nn.NLLLoss": "nll_loss",
    "torch.nn.KLDivLoss": "kl_div",
}
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
    ("kl_div", Activation.SOFTMAX): Severity.CRITICAL,
    ("kl_div", Activation.SIGMOID): Severity.CRITICAL,
}
_OF_LOGARITHMS = frozenset({"nll_loss", "kl_div"})
_MODULES = frozenset({tail_of(loss) for loss in _LOSSES if tail_of(loss)[0].isupper()})


class SoftmaxBeforeLoss(Rule):
    """A softmax or sigmoid in front of a loss that applies its own, or that expects logarithms.

    ## Why it costs
    `cross_entropy` takes raw scores and applies `log_softmax` itself. Given probabilities it squeezes them a second
    time: the loss cannot fall below a floor, gradients shrink, and the model learns slowly and less, without any
    error. The same goes for a sigmoid before `binary_cross_entropy_with_logits`, and for a softmax without logarithm
    before `nll_loss` or as the first argument of `kl_div`.

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
        for call in _loss_calls(file, index):
            scores = first_argument(call)
            loss = _loss_called(call, index)
            found = activation_of(scores, call.function, call.line, index) if scores is not None and loss else None
            if found is not None and (severity := _WRONG.get((loss, found.activation))) is not None:
                yield self._found(call, loss, found, severity)

    def _found(self, call: Call, loss: str, found: Activated, severity: Severity) -> RuleMatch:
        here = found.function is call.function
        where = f"on line {found.line}" if here else f"in {found.function.file.path}:{found.line}"
        wasteful = severity is Severity.SUGGESTION
        unlike = "while it takes logarithms" if loss in _OF_LOGARITHMS else "so the loss sees no scores"
        effect = "which changes nothing but costs time" if wasteful else unlike
        return self.hit(
            call.node,
            f"`{loss}` is given the result of a `{found.activation}` ({where}), {effect}",
            remedy=f"hand the raw scores to `{loss}`" if loss not in _OF_LOGARITHMS else "apply `log_softmax` instead",
            confidence=Confidence.HIGH if here else Confidence.MODERATE,
            basis=SEEN if here else FOLLOWED,
            severity=severity,
        )


def _loss_calls(file: FileTables, index: ProjectIndex) -> Iterator[Call]:
    names = index.once("names of losses", lambda: _names_of_losses(index))
    for tail in sorted({tail_of(name) for name in _LOSSES} | names):
        yield from file.calls_ending(tail)


def _names_of_losses(index: ProjectIndex) -> frozenset[str]:
    """Return the last names of what loss modules are assigned or handed to anywhere."""
    found = {"criterion", "loss_fn", "loss_func", "loss_function"}
    for file in index.files.values():
        for function in file.functions if any(file.calls_ending(*_MODULES)) else ():
            for target, assignments in function.assignments.items():
                if any(
                    isinstance(assignment.value, ast.Call) and _is_loss_module(assignment.value)
                    for assignment in assignments
                ):
                    found.add(tail_of(target))
    return frozenset(found)


def _is_loss_module(value: ast.Call) -> bool:
    return tail_of(dotted(value.func)) in _MODULES


def _loss_called(call: Call, index: ProjectIndex) -> str:
    """Return which loss a call computes; empty where it is none, or cannot be told."""
    name = call.name.removesuffix("()")
    if name in _LOSSES:
        is_constructor = tail_of(name)[0].isupper() and not call.name.endswith("()")
        return "" if is_constructor else _LOSSES[name]
    made = [
        _LOSSES.get(resolve(dotted(origin.value.func), origin.function), "")
        for origin in index.origins(call.node.func, call.function, call.line)
        if isinstance(origin.value, ast.Call)
    ]
    return made[0] if made and len(set(made)) == 1 else ""
