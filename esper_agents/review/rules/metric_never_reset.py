"""ESP295: a metric adds up over all epochs, because nothing calls its `reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, Class, FileTables

_UPDATES = ("update", "add", "add_batch", "accumulate")
_RESULTS = ("compute", "result", "results", "value", "get", "average", "evaluate", "score", "scores")


class MetricNeverReset(Rule):
    """A metric of these files with a `reset` that nothing calls, updated and computed once an epoch.

    ## Why it costs
    The metric keeps its sums. Each epoch's number mixes in all earlier epochs: an improvement shows late and weakened,
    the first epochs weigh as much as the last, and the best epoch and early stopping are chosen by that number.

    ## When it is right
    `reset` is called before the loop over the data, by the computation itself, or the metric is made again for each
    epoch. An average over the whole run. Reported only if the class has a `reset`, nothing in these files calls one on
    anything but the object itself, and the computation is reached from a loop outside of which the metric is made.

    ## Sources
    TorchMetrics documentation, "Overview": `reset` between epochs, as a metric accumulates until then.
    """

    code, name = "ESP295", "metric-never-reset"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "class Accuracy:\n"
        "    def __init__(self):\n"
        "        self.reset()\n"
        "\n"
        "    def reset(self):\n"
        "        self.right = self.count = 0\n"
        "\n"
        "    def update(self, outputs, y):\n"
        "        self.right += (outputs.argmax(1) == y).sum().item()\n"
        "        self.count += len(y)\n"
        "\n"
        "    def compute(self):\n"
        "        return self.right / self.count\n"
        "\n"
        "\n"
        "def fit(model, held_out, epochs):\n"
        "    metric = Accuracy()\n"
        "    for epoch in range(epochs):\n"
        "        for x, y in held_out:\n"
        "            metric.update(model(x), y)\n"
        "        print(epoch, metric.compute())\n"
    )
    good = bad.replace("        for x, y in held_out:\n", "        metric.reset()\n        for x, y in held_out:\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the updates of metrics that are never reset."""
        if file.purpose is Purpose.TEST:
            return
        for call in file.calls_ending(*_UPDATES):
            result = _result_beside(call)
            if result is None or not _is_repeated(result, call, index):
                continue
            owner = index.class_of(call.node.func.value, call.function, call.line)  # type: ignore[attr-defined]
            if owner is None or not _adds_up(owner, call.tail) or _is_reset(owner, result, index):
                continue
            yield self.hit(
                call.node,
                f"{call.receiver!r} is never reset: `{result.path}()` (line {result.line}) mixes in all earlier epochs",
                remedy=f"call `{call.receiver}.reset()` before the loop over the data",
                confidence=Confidence.MODERATE,
                basis=FOLLOWED,
            )


def _result_beside(call: Call) -> Call | None:
    """Return where a metric that a loop updates is computed, after that loop and in the same function."""
    loop = call.block.loop
    if loop is None or not call.receiver or "(" in call.receiver or "[" in call.receiver:
        return None
    later = (each for each in call.function.calls if each.tail in _RESULTS and each.receiver == call.receiver)
    return next((each for each in later if each.line > call.line and not each.block.within(loop)), None)


def _is_repeated(result: Call, update: Call, index: ProjectIndex) -> bool:
    """Return whether a loop computes a metric again and again which is made outside of it."""
    function, path = result.function, result.receiver
    made = function.assignments.get(path, ())
    if path.startswith("self."):
        loops = [result.block.loop, *(caller.block.loop for caller in index.callers(function))]
        return not made and any(loop is not None for loop in loops)
    loop = result.block.loop
    is_around = loop is not None and update.block.within(loop)
    return is_around and len(made) == 1 and loop is not None and not made[0].block.within(loop)


def _adds_up(owner: Class, update: str) -> bool:
    """Return whether an update adds to what `reset` sets, and is not undone by another method of the class."""
    reset, method = owner.methods.get("reset"), owner.methods.get(update)
    if reset is None or method is None:
        return False
    return any(
        path in method.assignments and all(each.is_augmented for each in method.assignments[path])
        for path in reset.assignments
        if path.startswith("self.")
    )


def _is_reset(owner: Class, result: Call, index: ProjectIndex) -> bool:
    """Return whether a metric may be reset: by a call in these files, or by its computation."""
    own = owner.methods.values()
    inside = [each for each in own if each.name != "__init__" for call in each.calls if call.tail == "reset"]
    computing = owner.methods.get(result.tail)
    renews = computing is not None and any(path in computing.assignments for path in owner.methods["reset"].assignments)
    for each in index.calls_ending("reset"):
        is_own = each.function in own and each.receiver == "self"
        if not is_own and not _is_of_another_class(each, owner, index):
            return True
    return bool(inside) or renews


def _is_of_another_class(call: Call, owner: Class, index: ProjectIndex) -> bool:
    """Return whether what is reset is surely something else: of a class of these files, or named otherwise."""
    held = getattr(call.node.func, "value", None)
    found = index.class_of(held, call.function, call.line) if held is not None else None
    return found is not None and found is not owner
