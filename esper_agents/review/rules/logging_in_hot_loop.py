"""ESP411: something is logged, drawn or written in every training step."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.fetches import DRAWING, FETCHING, SHOWING, draws, is_fetch, shown, shows, shows_tensor
from esper_agents.review.hot import hot_around, hot_in, is_rare
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.hot import Hot
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_PHASE = pattern(r"(?<![a-z])(?:phase|train|training|is_train|mode|split)(?![a-z])", re.IGNORECASE)
_PARAMETERS = pattern(r"parameters\(\)|modules\(\)")
# Bars redraw by themselves every so often, and levels under `info` are off.
_CHEAP = frozenset({"set_postfix", "set_postfix_str", "set_description", "set_description_str", "debug", "warning"})
# A tensor and the number of the step.
_FEW_VALUES = 2
_REMEDY = "do it every so many steps only: `if step % 100 == 0: ...`"


class LoggingInHotLoop(Rule):
    """Something logged, drawn or written to disk in every step of a training loop.

    ## Why it costs
    A histogram, a picture or a file is made on the host while the device waits, and histograms of all parameters copy
    the whole model in every step. Lines printed one for each step slow the loop as well, and nobody reads them.

    ## When it is right
    Steps are long, a second or more each, or a run of few steps is watched. What stands under an `if` with `%` in it,
    after a `continue` for the other steps, or in a loop over epochs is not reported, nor are progress bars.

    ## Sources
    PyTorch documentation of `torch.utils.tensorboard`; PyTorch performance tuning guide, on waits for the device.
    """

    code, name = "ESP411", "logging-in-hot-loop"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    bad = (
        "for step, (x, y) in enumerate(loader):\n"
        "    optimizer.zero_grad()\n"
        "    criterion(model(x), y).backward()\n"
        "    optimizer.step()\n"
        "    for name, parameter in model.named_parameters():\n"
        "        writer.add_histogram(name, parameter, step)\n"
    )
    good = (
        "for step, (x, y) in enumerate(loader):\n"
        "    optimizer.zero_grad()\n"
        "    criterion(model(x), y).backward()\n"
        "    optimizer.step()\n"
        "    if step % 500 == 0:\n"
        "        for name, parameter in model.named_parameters():\n"
        "            writer.add_histogram(name, parameter, step)\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what costs much in every step, and the first of the lines that cost little."""
        lines: set[Block] = set()
        done: set[ast.stmt] = set()
        for call in file.calls_ending(*DRAWING, *SHOWING):
            is_heavy = draws(call)
            if not (is_heavy or (shows(call) and call.tail not in _CHEAP)) or call.statement in done:
                continue
            hot = hot_around(call.block, index)
            if hot is None or hot.is_epoch or _is_excused(call, hot):
                continue
            if is_heavy:
                done.add(call.statement)
                yield self._heavy(call, hot)
            elif hot.around not in lines and not _is_fetched(call, index):
                lines.add(hot.around)
                yield self._line(call, hot)
        for hot in hot_in(file, index):
            yield from self._in_helpers(hot, index)

    def _in_helpers(self, hot: Hot, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the calls of helpers that draw or save whenever they are called."""
        for call in hot.around.function.calls if not hot.is_epoch else ():
            is_drawing = call.block.within(hot.around) and any(
                _always_draws(callee, index) for callee in index.callees(call)
            )
            if is_drawing and not _is_excused(call, hot):
                yield self._heavy(call, hot)

    def _heavy(self, call: Call, hot: Hot) -> RuleMatch:
        return self.hit(
            call.node,
            f"`{call.path}` in every training step keeps the device waiting",
            remedy=_REMEDY,
            confidence=Confidence.MODERATE,
            basis=hot.basis,
        )

    def _line(self, call: Call, hot: Hot) -> RuleMatch:
        over = _parameters_around(call, hot)
        return self.hit(
            call.node,
            f"`{call.path}` {'for every parameter ' if over else ''}in every training step",
            remedy=_REMEDY,
            confidence=Confidence.MODERATE,
            basis=hot.basis,
            severity=None if over else Severity.SUGGESTION,
        )


def _always_draws(function: Function, index: ProjectIndex) -> bool:
    """Return whether a function that is no part of the step itself draws or saves in each of its calls."""
    if function.is_module or hot_around(function.block, index) is not None:
        return False
    drawing = [call for call in function.calls if call.tail in DRAWING and draws(call)]
    return any(
        each.block is function.block and not any(block.kind is BlockKind.IF for block in function.blocks)
        for each in drawing
    )


def _is_excused(call: Call, hot: Hot) -> bool:
    """Return whether a test picks the steps; one that asks for the phase does not."""
    if is_rare(call.block, hot.around, call.line):
        return True
    tests = tests_around(call.block, hot.around)
    return any(not any(_PHASE.search(name) for name in names_in(test)) for test in tests)


def _is_fetched(call: Call, index: ProjectIndex) -> bool:
    """Return whether the line waits for the device in the first place, which another rule says.

    A line that shows several other values as well is a log, which is too much in every step without the wait, too.
    """
    values = [each for each in shown(call) if not isinstance(each, ast.Constant)]
    return (shows_tensor(call, index) and len(values) <= _FEW_VALUES) or any(
        each.tail in FETCHING and each.statement is call.statement and is_fetch(each) for each in call.function.calls
    )


def _parameters_around(call: Call, hot: Hot) -> bool:
    """Return whether a line stands in a loop over all parameters inside the step."""
    for loop in call.block.loops():
        if loop is hot.around or not loop.within(hot.around):
            return False
        node = loop.node
        if isinstance(node, ast.For) and _PARAMETERS.search(ast.unparse(node.iter)):
            return True
    return False
