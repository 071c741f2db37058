"""ESP288: a constant seed is set for each sample, forward or step, so that all draw the same numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.definitions import owner_of
from esper_agents.review.hot import hot_around, is_rare
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.tables import Purpose
from esper_agents.review.training import innermost_training_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, Class, FileTables

_SEEDING = (
    "torch.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "numpy.random.seed",
    "random.seed",
)
_MAKING = ("numpy.random.default_rng", "numpy.random.RandomState", "random.Random")
_SAMPLES = frozenset({"__getitem__", "__iter__", "forward", "training_step", "collate_fn"})


class SeedSetAgain(Rule):
    """`torch.manual_seed(0)` in a training loop, a `forward` or a `__getitem__`.

    ## Why it costs
    Each step repeats the same dropout mask, the same noise and the same augmentation, and the generator of the whole
    program starts again. Training runs, and the randomness that it relies on is gone.

    ## When it is right
    The seed depends on the sample or step, as in `torch.manual_seed(index)`, or a comparison wants equal numbers. Tests
    are not reported.

    ## Sources
    PyTorch notes, "Reproducibility", on random number generators.
    """

    code, name = "ESP288", "seed-set-again"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "for x, y in loader:\n"
        "    torch.manual_seed(0)\n"
        "    optimizer.zero_grad()\n"
        "    criterion(model(x), y).backward()\n"
        "    optimizer.step()\n"
    )
    good = (
        "import torch\n"
        "\n"
        "torch.manual_seed(0)\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    criterion(model(x), y).backward()\n"
        "    optimizer.step()\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the constant seeds that are set again and again."""
        if file.purpose is Purpose.TEST:
            return
        yield from self._generators(file, index)
        loops = innermost_training_loops(file)
        for call in file.calls_to(*_SEEDING):
            if not isinstance(call.argument(0, "seed"), ast.Constant) or not _is_whole(call):
                continue
            is_in_loop = any(call.block.within(loop) for loop in loops)
            if is_in_loop or (call.function.owner is not None and call.function.name in _SAMPLES):
                often = "training step" if is_in_loop else f"call of `{call.function.name}`"
                yield self.hit(
                    call.node,
                    f"the seed is set to a constant in every {often}: each draws the same random numbers",
                    remedy="set it once, before the loop",
                    basis=SEEN,
                )

    def _generators(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the generators that every step makes again with the same seed."""
        for call in (*file.calls_to(*_MAKING), *file.calls_ending("manual_seed")):
            seed = call.argument(0, "seed")
            if seed is None or not (call.name in _MAKING or _is_generator(call)) or not _is_fixed(seed, call):
                continue
            callers = index.callers(call.function)
            is_step = _is_hot(call, index) or (bool(callers) and all(_is_hot(each, index) for each in callers))
            if is_step:
                yield self.hit(
                    call.node,
                    f"every training step makes a generator with the seed `{ast.unparse(seed)}`: each draws the same "
                    "random numbers",
                    remedy="make the generator once and pass it, or let the seed depend on the step",
                    confidence=Confidence.MODERATE,
                    basis=FOLLOWED,
                )


def _is_hot(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call runs in every training step."""
    hot = hot_around(call.block, index)
    return hot is not None and not hot.is_epoch and not is_rare(call.block, hot.around, call.line)


def _is_generator(call: Call) -> bool:
    """Return whether a call seeds a generator that its function made: `torch.Generator().manual_seed(0)`."""
    held = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    if isinstance(held, ast.Name):
        made = call.function.last_assignment(held.id, call.line + 1)
        held = made.value if made is not None else held
    return isinstance(held, ast.Call) and resolve(dotted(held.func), call.function) == "torch.Generator"


def _is_fixed(seed: ast.expr, call: Call) -> bool:
    """Return whether a seed is the same in every call: a constant, or a setting that nothing in sight counts up."""
    if isinstance(seed, ast.Constant):
        return isinstance(seed.value, int)
    path = dotted(seed)
    owner = owner_of(call.function)
    if not isinstance(seed, ast.Attribute) or root_of(path) != "self" or owner is None:
        return False
    writes = [each for method in owner.methods.values() if method.name != "__init__" for each in method.assignments]
    return path not in writes and not any(path == each for each in _counted(owner))


def _counted(owner: Class) -> Iterator[str]:
    """Yield what the methods of a class add to."""
    yield from (dotted(node.target) for node in walk(owner.node) if isinstance(node, ast.AugAssign))


def _is_whole(call: Call) -> bool:
    """Return whether a call is a statement of its own: a generator that `torch.Generator()` made is seeded apart."""
    return isinstance(call.parent, ast.Expr)
