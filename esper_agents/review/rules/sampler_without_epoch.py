"""ESP204: a distributed sampler deals the same order in every epoch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.frameworks import runs_the_loop
from esper_agents.review.index import Origin
from esper_agents.review.loaders import loops_over_loaders
from esper_agents.review.programs import reached_from, starts
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.training import backward_calls, makers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

# How many steps from caller to caller are followed.
_HOPS = 3
_NAMES = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")


class SamplerWithoutEpoch(Rule):
    """A shuffling `DistributedSampler` in a training program in which nothing tells it the epoch.

    ## Why it costs
    The sampler seeds its shuffle with the epoch it was given. Without one it deals the same order in every epoch, with
    the same examples on the same rank: the shuffle is there and does nothing.

    ## When it is right
    The sampler does not shuffle (`shuffle=False`, as for evaluation), there is one epoch, or a framework such as
    Lightning or accelerate owns the loop. A `set_epoch` counts for its own sampler, and for the program in which it
    stands: a file that no other imports, with all that it imports.

    ## Sources
    PyTorch documentation of `torch.utils.data.distributed.DistributedSampler`, the warning on `set_epoch`.
    """

    code, name = "ESP204", "sampler-without-epoch"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "from torch.utils.data import DataLoader, DistributedSampler\n"
        "\n"
        "\n"
        "def fit(model, data, optimizer):\n"
        "    sampler = DistributedSampler(data)\n"
        "    loader = DataLoader(data, sampler=sampler)\n"
        "    for epoch in range(10):\n"
        "        for x in loader:\n"
        "            optimizer.zero_grad()\n"
        "            model(x).backward()\n"
        "            optimizer.step()\n"
    )
    good = bad.replace("        for x in loader:\n", "        sampler.set_epoch(epoch)\n        for x in loader:\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the shuffling samplers, unless something tells them the epoch."""
        made = [call for call in file.calls_to(*_NAMES) if _shuffles(call)]
        if not made or not _trains_in_epochs(index) or runs_the_loop(file):
            return
        for call in made:
            untold = _program_that_does_not_tell(call, index)
            if untold is None or _is_gone_over_once(call, index):
                continue
            where = "" if untold is file else f" in the program that {untold.path} starts"
            yield self.hit(
                call.node,
                f"nothing tells this sampler the epoch{where}, so every epoch has the same order",
                remedy="call `sampler.set_epoch(epoch)` at the start of every epoch",
                confidence=Confidence.MODERATE,
                basis=FOLLOWED,
            )


def _shuffles(call: Call) -> bool:
    shuffle = call.argument(3, "shuffle")
    return not call.has_splat() and (not isinstance(shuffle, ast.Constant) or bool(shuffle.value))


def _program_that_does_not_tell(made: Call, index: ProjectIndex) -> FileTables | None:
    """Return the file that starts a program which trains with a sampler and never tells it the epoch."""
    own = made.function.file
    telling = {call.function.file for call in index.calls_ending("set_epoch") if _may_tell(call, made, index)}
    training = {file for file in index.files.values() if any(_is_nested(call, index) for call in backward_calls(file))}
    beginning = [each for each in starts(own, index) if _uses(each, made, index)]
    programs = {each: reached_from(each, index) for each in beginning}
    programs = {start: files for start, files in programs.items() if files & training} or {own: {own}}
    return next((start for start, files in programs.items() if not files & telling), None)


def _may_tell(told: Call, made: Call, index: ProjectIndex) -> bool:
    """Return whether a `set_epoch` is of a sampler, as far as what makes its object shows; in doubt yes."""
    held = told.node.func.value if isinstance(told.node.func, ast.Attribute) else None
    if held is None:
        return True
    found = list(_samplers(Origin(held, told.function, told.line), index))
    return any(each.value is made.node or not isinstance(each.value, ast.Call) for each in found)


def _samplers(held: Origin, index: ProjectIndex) -> Iterator[Origin]:
    """Yield what makes a sampler; that of a loader is what the loader was made with."""
    for origin in makers(held.value, held.function, held.line, index):
        value = origin.value
        if isinstance(value, ast.Constant):
            continue
        if not isinstance(value, ast.Attribute) or value.attr not in {"sampler", "batch_sampler"}:
            yield origin
            continue
        for loader in makers(value.value, origin.function, origin.line, index):
            options = loader.value.keywords if isinstance(loader.value, ast.Call) else []
            given = [option.value for option in options if option.arg == value.attr]
            for each in given:
                yield from makers(each, loader.function, loader.line, index)
            if not given:
                yield origin


def _uses(start: FileTables, made: Call, index: ProjectIndex) -> bool:
    """Return whether a program may run the function that makes a sampler, by who calls it."""
    seen, edge = {made.function}, [made.function]
    for _ in range(_HOPS):
        edge = [call.function for each in edge for call in index.callers(each) if call.function not in seen]
        seen.update(edge)
    calling = {each.file for each in seen - {made.function}}
    return not calling or bool(calling & reached_from(start, index))


def _trains_in_epochs(index: ProjectIndex) -> bool:
    """Return whether some loop that sends a loss backward stands in another one, or in a function called from one."""
    return index.once(
        "trains in epochs",
        lambda: any(_is_nested(call, index) for file in index.files.values() for call in backward_calls(file)),
    )


def _is_nested(call: Call, index: ProjectIndex) -> bool:
    return _depth(call.block, index, _HOPS) > 1


def _depth(block: Block, index: ProjectIndex, hops: int) -> int:
    """Return in how many loops a block stands, those of the callers counted."""
    here = sum(1 for _ in block.loops())
    callers = index.callers(block.function) if hops else ()
    return here + max((_depth(caller.block, index, hops - 1) for caller in callers), default=0)


def _is_gone_over_once(made: Call, index: ProjectIndex) -> bool:
    """Return whether all loops over the loaders of a sampler are known, and none repeats: there is one epoch."""
    loops: list[Block] = []
    for call in index.calls_ending("DataLoader"):
        given = call.argument(3, "sampler")
        origins = makers(given, call.function, call.line, index) if given is not None else ()
        if any(origin.value is made.node for origin in origins):
            loops += loops_over_loaders(index).get(call.node, ())
    return bool(loops) and all(_depth(loop, index, _HOPS) == 1 for loop in loops)
