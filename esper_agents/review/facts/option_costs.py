"""Work that every step does only because an option is set: what the option costs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import is_periodic, names_in
from esper_agents.review.fact_query import Assessment, FactQuery, InspectionSubject
from esper_agents.review.hot import hot_around, is_rare
from esper_agents.review.names import tail_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.blocks import Block
    from esper_agents.review.fact_query import Fact
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_SPEED, _WAITING, _GROWTH, _PEAK = "speed", "idle device", "memory growth", "memory"
_FETCHING = frozenset({"item", "cpu", "numpy", "tolist", "synchronize"})
# Calls that a step does not notice.
_CHEAP = frozenset({"append", "len", "range", "format", "isinstance", "items", "keys", "values", "get", "str", "int"})
_MOST_CALLS, _LONGEST = 4, 50


class OptionCosts(FactQuery):
    """Work inside the training loop that an option turns on: one of the request, else one that fetches results."""

    name = "option-costs"
    topics = (_SPEED, _WAITING, _GROWTH, _PEAK)
    claim = "the option makes every step do more"
    refutes = False
    category = Category.PERFORMANCE
    bad = (
        "import torch\n\n\ndef fit(model, loader, optimizer, verbose=1):\n    scores = []\n    for x, y in loader:\n"
        "        optimizer.zero_grad()\n        out = model(x)\n        loss = out.sum()\n        loss.backward()\n"
        "        optimizer.step()\n        if verbose > 0:\n            scores.append(metric(out.cpu().numpy(), y))\n"
    )
    good = (
        "import torch\n\n\ndef fit(model, loader, optimizer, verbose=1):\n    for x, y in loader:\n"
        "        optimizer.zero_grad()\n        loss = model(x).sum()\n        loss.backward()\n"
        "        optimizer.step()\n    if verbose > 0:\n        print('done')\n"
    )
    asked = InspectionSubject((_SPEED,), sizes=("verbose=1",))

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the blocks in every step that run only because of an option."""
        options = _options(subject)
        for file in files:
            for function in file.functions:
                for block in function.blocks:
                    hot = hot_around(block, index)
                    line = getattr(block.node, "lineno", 1)
                    calls = [call for call in function.calls if call.block.within(block)]
                    tested = _tested(block) & (options | _names(function, fetches=_fetches(calls)))
                    if not tested or any(_tested(each) & tested for each in block.chain() if each is not block):
                        continue
                    if hot is None or hot.is_epoch or _is_seldom(block, hot.around, line) or not _costly(calls):
                        continue
                    yield self._cost(file, block, min(tested), calls)

    def _cost(self, file: FileTables, block: Block, option: str, calls: Sequence[Call]) -> Fact:
        costly = _costly(calls)
        fetching = [call for call in costly if call.tail in _FETCHING]
        shown = ", ".join(f"`{call.path}(...)`" for call in costly[:_MOST_CALLS])
        waits = "; the host waits for the device there" if fetching else ""
        text = f"because of `{option}` every step runs {shown}{waits}"
        remedy = f"do it every so many steps or at the end of the epoch, or run without `{option}`"
        return self.fact(file, block.node, Assessment.SHOULD_CHECK, text, remedy)


def _options(subject: InspectionSubject) -> frozenset[str]:
    """Return the names of options in the request: a size whose name is one identifier."""
    names = (each.rpartition("=")[0] for each in subject.sizes)
    return frozenset(name for name in names if name.isidentifier())


def _names(function: Function, *, fetches: bool) -> frozenset[str]:
    """Return the parameters of a function as options, if code under them fetches from the device."""
    return frozenset(function.parameters) - {"self"} if fetches else frozenset()


def _fetches(calls: Sequence[Call]) -> bool:
    return any(call.tail in _FETCHING for call in calls)


def _tested(block: Block) -> frozenset[str]:
    if block.kind is not BlockKind.IF or not isinstance(block.node, ast.If):
        return frozenset()
    return frozenset(tail_of(name) for name in names_in(block.node.test))


def _is_seldom(block: Block, around: Block, line: int) -> bool:
    """Return whether a block runs only in some steps even if its option is set."""
    is_own = isinstance(block.node, ast.If) and is_periodic(block.node.test)
    return is_own or (block.parent is not None and is_rare(block.parent, around, line))


def _costly(calls: Sequence[Call]) -> list[Call]:
    """Return the calls that may take time, those that fetch from the device first, one of each path."""
    found = {call.path: call for call in calls if call.tail not in _CHEAP and len(call.path) <= _LONGEST}
    return sorted(found.values(), key=lambda call: call.tail not in _FETCHING)
