"""ESP222: an iterable dataset gives all of its samples to each worker of a loader."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.loaders import loaders_with_workers
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, Class, FileTables, Function

_ITERABLE = pattern(r"torch\.utils\.data(?:\.dataset)?\.IterableDataset")
# Words of code that divides samples, or that takes them from a place where each comes once.
_DIVIDES = pattern(
    r"(?i)worker|\.shard\(|(?:num|n)_?shards|shard_(?:id|idx|index|rank|num|count)|\brank\b|world_size|queue|socket"
    r"|streaming|stdin|pipe|\benv\b|partition"
)
# Words of code that draws samples: each worker has its own seed, so each draws others.
_DRAWS = frozenset(
    {
        "rand",
        "randn",
        "randint",
        "random",
        "choice",
        "choices",
        "sample",
        "normal",
        "uniform",
        "multinomial",
        "integers",
    }
    | {"standard_normal", "rand_like", "randn_like", "random_sample", "beta", "poisson", "exponential"}
)
_LOOKED_THROUGH = frozenset(
    {"enumerate", "zip", "iter", "tqdm", "sorted", "reversed", "list", "tuple", "islice", "map", "filter", "trange"}
)
# Calls that read the same samples in each process.
_READING = frozenset(
    {"range", "open", "listdir", "glob", "iglob", "rglob", "iterdir", "reader", "DictReader", "read_csv", "readlines"}
    | {"splitlines", "scandir", "walk", "arange", "read_parquet", "iterrows", "itertuples", "randperm", "permutation"}
)


class IterableDatasetNotSharded(Rule):
    """An `IterableDataset` that is read by several workers and does not divide its samples among them.

    ## Why it costs
    Each worker gets its own copy of the dataset and iterates over all of it. With four workers every sample comes four
    times an epoch: a training sees duplicates within a batch or two, and a metric counts each sample four times.

    ## When it is right
    The samples are drawn at random, come from a queue or a stream that gives each sample once, or are divided in a
    `worker_init_fn`: none of these is reported.

    ## Sources
    PyTorch documentation of `torch.utils.data.IterableDataset`: both examples divide the work by `get_worker_info()`.
    """

    code, name = "ESP222", "iterable-dataset-not-sharded"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "from torch.utils.data import DataLoader, IterableDataset\n"
        "\n"
        "\n"
        "class Lines(IterableDataset):\n"
        "    def __init__(self, path):\n"
        "        self.path = path\n"
        "\n"
        "    def __iter__(self):\n"
        "        with open(self.path) as file:\n"
        "            for line in file:\n"
        "                yield line.strip()\n"
        "\n"
        "\n"
        'loader = DataLoader(Lines("train.txt"), batch_size=32, num_workers=4, pin_memory=True)\n'
    )
    good = bad.replace(
        "import DataLoader, IterableDataset", "import DataLoader, IterableDataset, get_worker_info"
    ).replace(
        "            for line in file:\n                yield line.strip()\n",
        "            worker = get_worker_info()\n"
        "            for number, line in enumerate(file):\n"
        "                if worker is None or number % worker.num_workers == worker.id:\n"
        "                    yield line.strip()\n",
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the datasets of a file that several workers read in full."""
        done: set[Function] = set()
        for owner, (call, workers) in loaders_with_workers(index).items():
            start = index.method(owner, "__iter__")
            if start is None or start.file is not file or start in done:
                continue
            is_iterable = any(_ITERABLE.fullmatch(base) for base in index.lineage(owner).foreign)
            if is_iterable and not _divides(owner, start, index) and _reads_all(owner, start, index):
                done.add(start)
                yield self._found(start, call, workers)

    def _found(self, start: Function, call: Call, workers: str) -> RuleMatch:
        is_number = workers.isdigit()
        here = call.function.file is start.file
        where = f"line {call.line}" if here else f"{call.function.file.path}:{call.line}"
        often = f"each sample comes {workers} times an epoch" if is_number else "each sample comes once per worker"
        return self.hit(
            start.node,
            f"a loader ({where}) reads this in `num_workers={workers}` processes, and each iterates over all samples: "
            f"{often}",
            remedy="give each worker its part: `islice(samples, worker.id, None, worker.num_workers)` with the worker "
            "of `torch.utils.data.get_worker_info()`",
            confidence=Confidence.HIGH if is_number else Confidence.MODERATE,
            basis=SEEN if here else FOLLOWED,
            severity=None if is_number else Severity.WARNING,
        )


def _divides(owner: Class, start: Function, index: ProjectIndex) -> bool:
    """Return whether code of a dataset may divide or draw its samples."""
    nodes: list[ast.AST] = [statement for cls in index.lineage(owner).classes for statement in cls.node.body]
    nodes += [function.node for function in index.closure(start)]
    return bool(_DRAWS & index.reached(start)) or any(_DIVIDES.search(_code(node)) for node in nodes)


def _code(node: ast.AST) -> str:
    """Return the code of a statement as text, without its docstrings."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return ""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node, clean=False):
        return "\n".join(map(ast.unparse, (node.args, *node.body[1:])))
    return ast.unparse(node)


def _reads_all(owner: Class, start: Function, index: ProjectIndex) -> bool:
    """Return whether an iteration surely goes over samples that are the same in each process."""
    for function in index.closure(start):
        for block in function.blocks:
            loop = block.node if isinstance(block.node, ast.For) else None
            is_yielding = loop is not None and any(isinstance(each, ast.Yield | ast.YieldFrom) for each in walk(loop))
            if loop is not None and is_yielding and _is_same(loop.iter, owner, function, loop.lineno, index):
                return True
        handed_on = (node.value for node in walk(function.node) if isinstance(node, ast.YieldFrom))
        if any(_is_same(value, owner, function, value.lineno, index) for value in handed_on):
            return True
        for statement, _ in function.returns:
            value = statement.value
            is_iterator = isinstance(value, ast.Call) and tail_of(dotted(value.func)) in {"iter", "map"}
            if value is not None and is_iterator and _is_same(value, owner, function, statement.lineno, index):
                return True
    return False


def _is_same(value: ast.expr, owner: Class, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether what a loop goes over is the same in each process: a file, a list, a range of numbers."""
    if isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _LOOKED_THROUGH:
        return any(_is_same(each, owner, function, line, index) for each in value.args)
    path = dotted(value)
    opened = (block for block in function.blocks if block.kind is BlockKind.WITH and path in block.targets)
    if path.startswith("self.") and _is_indexed(path, owner):
        return True
    if path and any(tail_of(context.removesuffix("()")) == "open" for block in opened for context in block.contexts):
        return True
    origins = index.origins(value, function, line)
    return bool(origins) and all(_is_known(origin.value) for origin in origins)


def _is_known(value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.ListComp | ast.Tuple):
        return True
    if isinstance(value, ast.Call):
        tail = tail_of(dotted(value.func))
        inner = value.args[0] if value.args and tail in _LOOKED_THROUGH else None
        return tail in _READING or (inner is not None and _is_known(inner))
    return False


def _is_indexed(path: str, owner: Class) -> bool:
    """Return whether a dataset takes the length of an attribute: it holds a sequence."""
    lengths = (call for method in owner.methods.values() for call in method.calls if call.path == "len")
    return any(dotted(call.node.args[0]) == path for call in lengths if call.node.args)
