"""ESP107: a learning rate scheduler steps before the optimizer has."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import tests_around
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.training import is_optimizer_step, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_MADE = pattern(r"torch\.optim\.(?:lr_scheduler|swa_utils)\.\w+|transformers\.(?:\w+\.)?get_\w*schedule\w*")

_NAMED = frozenset({"scheduler", "lr_scheduler", "lr_sched"})


class SchedulerBeforeOptimizer(Rule):
    """A `scheduler.step()` in a loop whose rounds let the optimizer step only afterwards.

    ## Why it costs
    A scheduler of torch sets the learning rate of the first step when it is made. Stepped before the optimizer, it
    skips that value, and all later ones come a round early; PyTorch warns once, in the middle of the log.

    ## When it is right
    The scheduler is none of torch and sets the rate of the round at hand; it is stepped under a condition that leaves
    out the first round; the optimizer has stepped before the loop; or the warning is caught there. None of these is
    reported.

    ## Sources
    PyTorch documentation of `torch.optim`, "How to adjust learning rate": since 1.1.0 the scheduler comes after the
    optimizer.
    """

    code, name = "ESP107", "scheduler-before-optimizer"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = (
        "from torch.optim.lr_scheduler import StepLR\n"
        "\n"
        "scheduler = StepLR(optimizer, step_size=10)\n"
        "for epoch in range(30):\n"
        "    scheduler.step()\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        criterion(model(x), y).backward()\n"
        "        optimizer.step()\n"
    )
    good = bad.replace("    scheduler.step()\n", "") + "    scheduler.step()\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the steps of schedulers that come first in their loop."""
        for call in file.calls_ending("step"):
            loop = call.block.loop
            if loop is None or call.node.args or call.node.keywords or is_optimizer_step(call, index):
                continue
            is_sure = _is_scheduler(call, index)
            if is_sure is False or any(tests_around(call.block, loop)) or _is_meant(call):
                continue
            taken = [each for each in call.function.calls if each is not call and _takes_step(each, index)]
            if any(_place(each) < _place(call) for each in taken):
                continue
            if following := next((each for each in taken if each.block.within(loop)), None):
                yield self._found(call, following, index, is_sure=is_sure is True)

    def _found(self, call: Call, following: Call, index: ProjectIndex, *, is_sure: bool) -> RuleMatch:
        is_here = is_optimizer_step(following, index)
        every = "round" if following.block.loop is call.block.loop else "epoch"
        what = f"`{following.path}()`" if is_here else f"the step in `{following.path}(...)`"
        return self.hit(
            call.node,
            f"`{call.path}()` comes before {what} in every {every}: the first rate is skipped",
            remedy=f"call `{call.path}()` after it",
            confidence=Confidence.HIGH if is_here and is_sure else Confidence.MODERATE,
            basis=(SEEN if is_here else FOLLOWED) if is_sure else f"{INFERRED}: from the name of the scheduler",
        )


def _is_scheduler(call: Call, index: ProjectIndex) -> bool | None:
    """Return whether a call is on a scheduler of torch: True by what made it, None by its name alone."""
    receiver = getattr(call.node.func, "value", None)
    origins = index.origins(receiver, call.function, call.line) if receiver is not None else ()
    calls = [(origin.value, origin.function) for origin in origins if isinstance(origin.value, ast.Call)]
    if not all(_MADE.fullmatch(resolve(dotted(value.func), function)) for value, function in calls):
        return False
    if calls and len(calls) == len(origins):
        return True
    return None if tail_of(call.receiver) in _NAMED else False


def _is_meant(call: Call) -> bool:
    """Return whether somebody has seen the warning of PyTorch, and silences it here."""
    return any("catch_warnings" in context for block in call.block.chain() for context in block.contexts)


def _takes_step(call: Call, index: ProjectIndex) -> bool:
    """Return whether an optimizer steps in a call: itself, or in a function that it surely reaches."""
    return is_optimizer_step(call, index) or any(next(steps(callee, index), None) for callee in index.callees(call))


def _place(call: Call) -> tuple[int, int]:
    return call.line, call.node.col_offset
