"""ESP263: a distribution is given probabilities as logits, or logits or log-probabilities as probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import Activation
from esper_agents.review.endings import last_operation
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from esper_agents.review.activations import Activated
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

# The position of the probabilities; the logits follow them.
_DISTRIBUTIONS = {
    "Categorical": 0,
    "OneHotCategorical": 0,
    "OneHotCategoricalStraightThrough": 0,
    "Bernoulli": 0,
    "ContinuousBernoulli": 0,
    "Geometric": 0,
    "Binomial": 1,
    "Multinomial": 1,
    "NegativeBinomial": 1,
    "RelaxedBernoulli": 1,
    "RelaxedOneHotCategorical": 1,
}
_NAMES = tuple(
    f"torch.distributions.{module}{name}" for name in _DISTRIBUTIONS for module in ("", "categorical.", "bernoulli.")
)
_LOGARITHMS = frozenset({Activation.LOG_SOFTMAX, Activation.LOG_SIGMOID})
_PROBABILITIES = frozenset({Activation.SOFTMAX, Activation.SIGMOID})


class DistributionArguments(Rule):
    """A distribution or a draw that takes probabilities as logits, or logits as probabilities.

    ## Why it costs
    The first argument of `Categorical` and `Bernoulli` is the probabilities. Log-probabilities, all negative, pass as
    well: divided by their sum they are positive, and the least likely action is drawn most often. Probabilities given
    as `logits` are taken through a softmax again: all actions become nearly equally likely. Only raw scores of both
    signs raise an error.

    ## When it is right
    Log-probabilities as `logits` are right: the softmax of them is the probabilities.

    ## Sources
    PyTorch documentation of `torch.distributions.Categorical`, `torch.multinomial` and
    `torch.nn.functional.gumbel_softmax`.
    """

    code, name = "ESP263", "distribution-arguments"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "from torch.distributions import Categorical\n"
        "\n"
        "\n"
        "def act(policy, state):\n"
        "    return Categorical(F.log_softmax(policy(state), dim=-1)).sample()\n"
    )
    good = bad.replace("F.log_softmax", "logits=F.log_softmax")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the distributions and draws that are given the wrong kind of numbers."""
        for call in file.calls_to(*_NAMES):
            place = _DISTRIBUTIONS[call.tail]
            yield from self._as_probabilities(call, call.argument(place, "probs"), index)
            yield from self._as_logits(call, call.argument(place + 1, "logits"), index)
        for call in file.calls_to("torch.multinomial"):
            yield from self._as_probabilities(call, call.argument(0, "input"), index)
        for call in file.calls_to("torch.bernoulli"):
            yield from self._as_probabilities(call, call.argument(0, "input"), index)
        for call in file.calls_to("torch.nn.functional.gumbel_softmax"):
            yield from self._as_logits(call, call.argument(0, "logits"), index)

    def _as_probabilities(self, call: Call, value: ast.expr | None, index: ProjectIndex) -> Iterator[RuleMatch]:
        found = last_operation(value, call.function, call.line, index) if value is not None else None
        if found is None or found.activation in _PROBABILITIES:
            return
        is_log = found.activation in _LOGARITHMS
        what = f"the result of a `{found.activation}`" if is_log else "the raw scores of a linear layer"
        if call.name in {"torch.multinomial", "torch.bernoulli"}:
            remedy = "pass probabilities: `.exp()` of log-probabilities, or a softmax of raw scores"
        else:
            remedy = "pass it by the name `logits`"
        yield self._found(call, found, f"`{call.tail}` takes probabilities here, and is given {what}", remedy)

    def _as_logits(self, call: Call, value: ast.expr | None, index: ProjectIndex) -> Iterator[RuleMatch]:
        found = last_operation(value, call.function, call.line, index) if value is not None else None
        if found is not None and found.activation in _PROBABILITIES:
            what = f"`{call.tail}` takes logits here, and is given the result of a `{found.activation}`"
            remedy = (
                "pass the raw scores"
                if call.tail == "gumbel_softmax"
                else "pass it by the name `probs`, or pass the raw scores"
            )
            yield self._found(call, found, what, remedy)

    def _found(self, call: Call, found: Activated, what: str, remedy: str) -> RuleMatch:
        here = found.function is call.function
        where = f"line {found.line}" if here else f"{found.function.file.path}:{found.line}"
        return self.hit(
            call.node,
            f"{what} ({where})",
            remedy=remedy,
            confidence=Confidence.HIGH if here else Confidence.MODERATE,
            basis=SEEN if here else FOLLOWED,
        )
