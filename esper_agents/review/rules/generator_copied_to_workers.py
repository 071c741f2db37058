"""ESP223: a random generator of a dataset is copied to the workers of a loader."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.loaders import loaders_with_workers
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, Class, FileTables, Function

_GENERATORS = frozenset(
    {
        "numpy.random.default_rng",
        "numpy.random.RandomState",
        "numpy.random.Generator",
        "random.Random",
        "torch.Generator",
    }
)
_SEEDING = frozenset({"seed", "manual_seed", "set_state", "setstate", "spawn"})
_SAMPLING = ("__getitem__", "__getitems__", "__iter__")


class GeneratorCopiedToWorkers(Rule):
    """A random generator that a dataset makes once, and from which its samples draw in several workers.

    ## Why it costs
    Each worker of a `DataLoader` gets a copy of the dataset, and with it a copy of the generator in the same state. All
    workers draw the same numbers: with four workers, four batches in a row have the same augmentation. Without
    `persistent_workers` each epoch starts from the same copies, so that it repeats the numbers of the first.

    ## When it is right
    The samples are to be the same each time, and the generator is seeded by the index of the sample. A generator that
    a method seeds again, and a loader with a `worker_init_fn`, are not reported. Numbers of `random`, of `torch` and,
    since torch 1.9, of `numpy.random` itself need nothing: the loader seeds them in each worker.

    ## Sources
    PyTorch documentation of `torch.utils.data`, "Randomness in multi-process data loading"; `_worker_loop` in
    `torch/utils/data/_utils/worker.py` seeds `random`, `torch` and `numpy.random`.
    """

    code, name = "ESP223", "generator-copied-to-workers"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import numpy as np\n"
        "from torch.utils.data import DataLoader, Dataset\n"
        "\n"
        "\n"
        "class Noisy(Dataset):\n"
        "    def __init__(self, samples):\n"
        "        self.samples = samples\n"
        "        self.rng = np.random.default_rng(0)\n"
        "\n"
        "    def __len__(self):\n"
        "        return len(self.samples)\n"
        "\n"
        "    def __getitem__(self, i):\n"
        "        return self.samples[i] + self.rng.normal(size=self.samples[i].shape)\n"
        "\n"
        "\n"
        "loader = DataLoader(Noisy(samples), batch_size=32, num_workers=4, pin_memory=True)\n"
    )
    good = bad.replace("        self.rng = np.random.default_rng(0)\n", "").replace(
        "self.rng.normal", "np.random.normal"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the generators of a file that samples draw from in several workers."""
        done: set[ast.AST] = set()
        for owner, (call, workers) in loaders_with_workers(index).items():
            for made in _generators(owner, index):
                if made.block.function.file is file and made.statement not in done:
                    draw = _drawn_from(made, owner, index)
                    if draw is not None:
                        done.add(made.statement)
                        yield self._found(made, draw, call, workers)

    def _found(self, made: Assignment, draw: Call, call: Call, workers: str) -> RuleMatch:
        here = call.function.file is made.block.function.file
        where = f"line {call.line}" if here else f"{call.function.file.path}:{call.line}"
        is_number = workers.isdigit()
        return self.hit(
            made.statement,
            f"each of the `num_workers={workers}` processes of a loader ({where}) gets a copy of `{made.target}` in "
            f"the same state, so that line {draw.line} draws the same numbers in all of them",
            remedy="make it in the worker, seeded by `torch.initial_seed()`, or draw from `torch` or `numpy.random`",
            confidence=Confidence.HIGH if is_number and here else Confidence.MODERATE,
            basis=SEEN if here else FOLLOWED,
        )


def _generators(owner: Class, index: ProjectIndex) -> Iterator[Assignment]:
    """Yield where a dataset, or the module of its class, makes a generator once and nothing makes or seeds it again."""
    for cls in index.lineage(owner).classes:
        module = cls.file.functions[0]
        for assignments in (*cls.attributes.values(), *module.assignments.values()):
            made = assignments[0]
            is_once = len(assignments) == 1 and (
                made.block.function.is_module or made.block.function.name == "__init__"
            )
            if is_once and _makes_generator(made) and not _seeds_again(made, cls):
                yield made


def _makes_generator(made: Assignment) -> bool:
    value = made.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SEEDING:
        value = value.func.value
    return isinstance(value, ast.Call) and resolve(dotted(value.func), made.block.function) in _GENERATORS


def _seeds_again(made: Assignment, cls: Class) -> bool:
    """Return whether a method other than the constructor seeds a generator, or the class asks which worker it is in."""
    calls = [call for name, method in cls.methods.items() if name != "__init__" for call in method.calls]
    methods = {"__setstate__", "__getstate__", "__reduce__"} & cls.methods.keys()
    return bool(methods) or any(
        call.tail == "get_worker_info" or (call.receiver == made.target and call.tail in _SEEDING) for call in calls
    )


def _drawn_from(made: Assignment, owner: Class, index: ProjectIndex) -> Call | None:
    """Return the call that draws from a generator while a sample is made."""
    starts = [method for name in _SAMPLING if (method := index.method(owner, name)) is not None]
    for function in dict.fromkeys(each for start in starts for each in _sure(start, index)):
        if made.target in function.assignments or made.target in function.parameters:
            continue
        for call in function.calls:
            given = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
            is_given = any(isinstance(each, ast.Name | ast.Attribute) and dotted(each) == made.target for each in given)
            if call.receiver == made.target or is_given:
                return call
    return None


def _sure(start: Function, index: ProjectIndex) -> Iterator[Function]:
    """Yield a function and those that it surely calls, each once."""
    seen = {start: None}
    edge = [start]
    while edge:
        called = {each for function in edge for call in function.calls for each in index.callees(call)}
        edge = [each for each in called if each not in seen]
        seen.update(dict.fromkeys(edge))
    yield from seen
