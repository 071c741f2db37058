"""ESP501: compiled code does something that cannot be in a graph."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, ClassVar

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.compiled import compiled_functions
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.names import dotted, root_of, tail_of
from esper_agents.review.rule import FOLLOWED, SEEN, Example, Rule
from esper_agents.review.tables import BlockKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.compiled import CompiledBy
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, Call, FileTables, Function

_UNLESS = " (unless `torch._dynamo.config.capture_scalar_outputs` is set)"
_REMEDY = "move it out of the compiled code; choose between values with `torch.where` rather than `if`"
_PLAIN = frozenset({"print", "open", "input", "breakpoint"})
_NAMED = frozenset(
    {"torch.save", "torch.manual_seed", "warnings.warn", "pdb.set_trace", "time.time", "time.perf_counter"}
    | {"time.sleep", "time.monotonic", "random.random", "random.choice"}
)
_METHODS = frozenset({"item", "tolist", "backward"})
# With `capture_scalar_outputs`, which `fullgraph=True` turns on, these stay in the graph.
_FETCHES = frozenset({"item", "tolist"})
_CAPTURED = re.compile(r"capture_scalar_outputs\s*=\s*True")
_LOGGING = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
# Said under an `if`, or in a function that may be called under one, these are for the rare case.
_RARE = _LOGGING | {"warn", "print"}
_LOGGER = re.compile(r"_*(log|logger|logging)", re.IGNORECASE)
_REDUCING = frozenset(
    {"sum", "any", "all", "max", "min", "mean", "norm", "isnan", "isfinite", "allclose", "equal", "item"}
)
_GUARDED = re.compile(r"is_compiling|is_dynamo_compiling|is_scripting|is_tracing|debug|verbose|isEnabledFor")


class GraphBreak(Rule):
    """A print, a fetch or a branch on a tensor's value inside code that `torch.compile` runs.

    ## Why it costs
    At each of these the compiled graph ends, Python takes over, and a new graph begins: fusion stops there, and the
    overhead of two graphs replaces that of one. Under `fullgraph=True` it is an error instead.

    ## When it is right
    The break is rare or cheap and known. Code under `torch.compiler.is_compiling()`, under a debugging flag, in an
    `except`, or in a function marked `torch.compiler.disable` is not reported, nor are `.cpu()` and `.numpy()`, which
    are traced. `.item()` and `.tolist()` stay in the graph where `torch._dynamo.config.capture_scalar_outputs` is on,
    as it is under `fullgraph=True`.

    ## Sources
    PyTorch documentation of `torch.compile`, on graph breaks; each pattern was tried with torch 2.13.
    """

    code, name = "ESP501", "graph-break"
    severity, category = Severity.WARNING, Category.COMPILE
    bad: ClassVar[Example] = {
        "model.py": (
            "from torch import nn\n"
            "\n"
            "\n"
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.layer = nn.Linear(8, 8)\n"
            "\n"
            "    def forward(self, x):\n"
            "        x = self.layer(x)\n"
            "        if x.abs().max() > 10:\n"
            "            x = x / 10\n"
            "        return x\n"
        ),
        "train.py": "import torch\n\nfrom model import Net\n\nnet = torch.compile(Net())\n",
    }
    good: ClassVar[Example] = {
        "model.py": (
            "import torch\n"
            "from torch import nn\n"
            "\n"
            "\n"
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.layer = nn.Linear(8, 8)\n"
            "\n"
            "    def forward(self, x):\n"
            "        x = self.layer(x)\n"
            "        return torch.where(x.abs().max() > 10, x / 10, x)\n"
        ),
        "train.py": "import torch\n\nfrom model import Net\n\nnet = torch.compile(Net())\n",
    }

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield what breaks the graph in the compiled functions of the file."""
        is_captured = index.once("scalars are captured", lambda: _captures_scalars(index))
        for function, by in compiled_functions(index).items():
            if function.file is not file:
                continue
            for call in function.calls:
                what = _breaking_call(call, by, is_captured=is_captured)
                if what and not _is_guarded(call.block):
                    yield self._found(call.node, what, function, by)
            for test, outside in _tests(function):
                if _asks_a_tensor(test, function) and not _is_guarded(outside):
                    yield self._found(test, "a branch on a tensor's value", function, by)

    def _found(self, node: ast.AST, what: str, function: Function, by: CompiledBy) -> Hit:
        effect = "is an error under `fullgraph=True`" if by.is_whole else "ends the compiled graph"
        return self.hit(
            node,
            f"{what} {effect}: {function.qualname!r} is compiled at {by.path}:{by.line}",
            remedy=_REMEDY,
            confidence=Confidence.HIGH if by.is_direct else Confidence.MODERATE,
            basis=SEEN if by.is_direct and by.path == function.file.path else FOLLOWED,
        )


def _captures_scalars(index: ProjectIndex) -> bool:
    return any(_CAPTURED.search(file.text) is not None for file in index.files.values())


def _tests(function: Function) -> Iterator[tuple[ast.expr, Block]]:
    """Yield what decides how a function goes on, each with the block it stands in."""
    for block in function.blocks:
        if block.kind in {BlockKind.IF, BlockKind.WHILE} and isinstance(block.node, ast.If | ast.While):
            yield block.node.test, block.parent or block
    for call in function.calls:
        # Every test on a tensor holds a call; an `assert` that torch can defer breaks nothing.
        for each in ast.walk(call.statement) if _is_simple(call.statement) else ():
            if isinstance(each, ast.IfExp):
                yield each.test, call.block


def _is_simple(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr)


def _breaking_call(call: Call, by: CompiledBy, *, is_captured: bool) -> str:
    """Return what a call does that no graph can hold, in words; empty where it does nothing of the kind."""
    if call.tail in _FETCHES and (by.is_whole or is_captured):
        return ""
    if call.tail in _RARE and (by.is_sometimes or any(tests_around(call.block, call.function.block))):
        return ""
    is_plain = call.path in _PLAIN or call.name in _NAMED
    is_method = call.tail in _METHODS and bool(call.receiver) and not call.node.args
    is_logging = call.tail in _LOGGING and _LOGGER.fullmatch(tail_of(call.receiver)) is not None
    if not (is_plain or is_method or is_logging):
        return ""
    return f"`{call.tail}(...)`{_UNLESS if call.tail in _FETCHES else ''}"


def _asks_a_tensor(test: ast.expr, function: Function) -> bool:
    """Return whether a test reads the value of a tensor: a reduction of something the function was given or made."""
    known = {*function.parameters, *function.assignments} - {"self"}
    return any(
        _is_reduction(each, known) or (isinstance(each, ast.Name) and _holds_a_reduction(each, known, function))
        for each in _values_asked(test)
    )


def _values_asked(test: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of a test whose values decide it; `x is None` and calls such as `len(x)` ask no value."""
    if isinstance(test, ast.BoolOp):
        for each in test.values:
            yield from _values_asked(each)
    elif isinstance(test, ast.UnaryOp):
        yield from _values_asked(test.operand)
    elif isinstance(test, ast.BinOp):
        yield from _values_asked(test.left)
        yield from _values_asked(test.right)
    elif isinstance(test, ast.Compare):
        if not isinstance(test.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
            for each in (test.left, *test.comparators):
                yield from _values_asked(each)
    else:
        yield test


def _holds_a_reduction(name: ast.Name, known: set[str], function: Function) -> bool:
    last = function.last_assignment(name.id, name.lineno)
    return last is not None and not last.is_unpacked and _is_reduction(last.value, known)


def _is_reduction(node: ast.expr, known: set[str]) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCING):
        return False
    operand = node.args[0] if dotted(node.func.value) == "torch" and node.args else node.func.value
    return bool(known & {root_of(path) for path in names_in(operand)}) and not _is_shape(operand)


def _is_shape(node: ast.expr) -> bool:
    return re.search(r"\.(shape|size|dim|ndim|numel|stride)\b", ast.unparse(node)) is not None


def _is_guarded(block: Block) -> bool:
    if any(each.kind is BlockKind.EXCEPT for each in block.chain()):
        return True
    return any(_GUARDED.search(ast.unparse(test)) for test in tests_around(block, block.function.block))
