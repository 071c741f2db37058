"""ESP232: both branches of a Siamese network are trained on each other, without a stop-gradient."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_CUTTING = ("detach", "no_grad", "stop_gradient", ".data")


@dataclass(frozen=True, slots=True)
class _Prediction:
    """A prediction `p = predictor(z)`.

    Attributes:
        made: The assignment of `p`.
        source: The name of `z`.
        predictor: What is called, as written.
    """

    made: Assignment
    source: str
    predictor: str


class BranchWithoutStopGradient(Rule):
    """A symmetric loss `d(p1, z2) + d(p2, z1)` with `p = predictor(z)`, whose targets `z` carry gradients.

    ## Why it costs
    Without a stop-gradient on the targets the cheapest solution is a constant output: the loss falls to its minimum
    within the first epochs, and the representations have collapsed.

    ## When it is right
    The targets are detached, `d(p1, z2.detach())`, or come from a momentum encoder that runs under `no_grad`. Losses
    with negative pairs or a variance term do not have this form.

    ## Sources
    Chen and He, "Exploring Simple Siamese Representation Learning", algorithm 1 and section 4.1.
    """

    code, name = "ESP232", "branch-without-stop-gradient"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def siamese_loss(encoder, predictor, x1, x2):\n"
        "    z1, z2 = encoder(x1), encoder(x2)\n"
        "    p1, p2 = predictor(z1), predictor(z2)\n"
        "    return -(F.cosine_similarity(p1, z2).mean() + F.cosine_similarity(p2, z1).mean()) / 2\n"
    )
    good = bad.replace("(p1, z2)", "(p1, z2.detach())").replace("(p2, z1)", "(p2, z1.detach())")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the symmetric losses whose targets carry gradients."""
        if not file.imports_torch:
            return
        for function in file.functions:
            predictions = {each.made.target: each for each in _predictions(function)}
            passed = _returned_by(function, index) if not predictions else {}
            known = predictions or passed
            for first, second in combinations(_compared(function, known), 2):
                if _is_symmetric(first, second, known) and not _is_cut(first, known, index):
                    yield self._found(first, known, is_here=bool(predictions))
                    break

    def _found(self, call: Call, known: dict[str, _Prediction], *, is_here: bool) -> RuleMatch:
        names = [dotted(each) for each in call.node.args[:2]]
        target = next(each for each in names if each not in known)
        return self.hit(
            call.node,
            f"the target `{target}` carries gradients, and each branch is trained on the other: both collapse to a "
            "constant",
            remedy=f"pass `{target}.detach()`, in both terms",
            confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
            basis=SEEN if is_here else FOLLOWED,
        )


def _predictions(function: Function) -> Iterator[_Prediction]:
    """Yield the assignments `p = predictor(z)` with one name as the argument."""
    for assignments in function.assignments.values():
        made = assignments[-1]
        value = made.value
        is_call = isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords
        if not is_call or not isinstance(value, ast.Call) or without_gradients(made.block):
            continue
        source = dotted(value.args[0])
        if source.isidentifier() and dotted(value.func) and source in function.assignments:
            yield _Prediction(made, source, dotted(value.func))


def _returned_by(function: Function, index: ProjectIndex) -> dict[str, _Prediction]:
    """Return the predictions among the names that a network of the project returned: `p1, p2, z1, z2 = model(a, b)`."""
    found: dict[str, _Prediction] = {}
    for call in function.calls:
        targets = getattr(call.statement, "targets", [])
        names = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else []
        if len(names) < 4 or getattr(call.statement, "value", None) is not call.node:  # noqa: PLR2004 - two of each
            continue
        for called in index.callees(call):
            if len(called.returns) != 1 or not isinstance(called.returns[0][0].value, ast.Tuple):
                continue
            inner = {each.made.target: each for each in _predictions(called)}
            parts = [dotted(each) for each in called.returns[0][0].value.elts]
            outer = {part: dotted(name) for part, name in zip(parts, names, strict=False) if part}
            for part, name in outer.items():
                if part in inner and inner[part].source in outer:
                    found[name] = _Prediction(inner[part].made, outer[inner[part].source], inner[part].predictor)
    return found


def _compared(function: Function, known: dict[str, _Prediction]) -> list[Call]:
    """Return the calls of a loss with a prediction and another name."""
    sources = {each.source for each in known.values()}
    found = []
    for call in function.calls:
        names = [dotted(each) for each in call.node.args[:2]]
        if len(names) > 1 and len(set(names) & set(known)) == 1 and len(set(names) & sources) == 1:
            found.append(call)
    return found


def _is_symmetric(first: Call, second: Call, known: dict[str, _Prediction]) -> bool:
    """Return whether two losses compare the prediction of each branch with the other branch."""
    if first.path != second.path or without_gradients(first.block):
        return False
    pairs = []
    for call in (first, second):
        names = [dotted(each) for each in call.node.args[:2]]
        prediction = next(each for each in names if each in known)
        target = next(each for each in names if each != prediction)
        pairs.append((known[prediction], target))
    (one, target), (two, other) = pairs
    return one.predictor == two.predictor and one.source == other != target == two.source


def _is_cut(call: Call, known: dict[str, _Prediction], index: ProjectIndex) -> bool:
    """Return whether the targets have no gradients, by their making or in the function that compares."""
    function = call.function
    for prediction in known.values():
        made = function.last_assignment(prediction.source, call.line)
        if made is not None and (without_gradients(made.block) or _cuts(made.value)):
            return True
        own = prediction.made.block.function
        inner = [each for name in (prediction.source,) for each in own.assignments.get(name, ())]
        if any(_cuts(each.value) or without_gradients(each.block) for each in inner):
            return True
    name = dotted(call.node.func)
    called = [*index.callees(call), *(each for each in function.inner if each.name == name)]
    return any(any(cut in ast.unparse(each.node) for cut in _CUTTING) for each in called)


def _cuts(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in {"detach", "data"} for node in walk(value))
