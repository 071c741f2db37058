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

_REMEDY = "move it out of the compiled code; choose between values with `torch.where` rather than `if`"
_PLAIN = frozenset({"print", "open", "input", "breakpoint"})
_NAMED = frozenset(
    {"torch.save", "torch.manual_seed", "warnings.warn", "pdb.set_trace", "time.time", "time.perf_counter"}
)
_METHODS = frozenset({"item", "tolist", "backward"})
_LOGGING = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
# Said under an `if`, these are for the rare case.
_RARE = _LOGGING | {"warn"}
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
    `except`, or in a function marked `torch.compiler.disable` is not reported, nor is `.numpy()`, which is traced.

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
        for function, by in compiled_functions(index).items():
            if function.file is not file:
                continue
            for call in function.calls:
                if (what := _breaking_call(call, by)) and not _is_guarded(call.block):
                    yield self._found(call.node, what, function, by)
            for block in function.blocks:
                if block.kind in {BlockKind.IF, BlockKind.WHILE} and isinstance(block.node, ast.If | ast.While):
                    outside = block.parent or block
                    if _asks_a_tensor(block.node.test, function) and not _is_guarded(outside):
                        yield self._found(block.node.test, "a branch on a tensor's value", function, by)

    def _found(self, node: ast.AST, what: str, function: Function, by: CompiledBy) -> Hit:
        effect = "is an error under `fullgraph=True`" if by.is_whole else "ends the compiled graph"
        return self.hit(
            node,
            f"{what} {effect}: {function.qualname!r} is compiled at {by.path}:{by.line}",
            remedy=_REMEDY,
            confidence=Confidence.HIGH if by.is_direct else Confidence.MODERATE,
            basis=SEEN if by.is_direct and by.path == function.file.path else FOLLOWED,
        )


def _breaking_call(call: Call, by: CompiledBy) -> str:
    """Return what a call does that no graph can hold, in words; empty where it does nothing of the kind."""
    if call.tail == "item" and by.is_whole:
        return ""
    if call.tail in _RARE and any(tests_around(call.block, call.function.block)):
        return ""
    is_plain = call.path in _PLAIN or call.name in _NAMED
    is_method = call.tail in _METHODS and bool(call.receiver) and not call.node.args
    is_logging = call.tail in _LOGGING and _LOGGER.fullmatch(tail_of(call.receiver)) is not None
    return f"`{call.tail}(...)`" if is_plain or is_method or is_logging else ""


def _asks_a_tensor(test: ast.expr, function: Function) -> bool:
    """Return whether a test reads the value of a tensor: a reduction of something the function was given or made."""
    known = {*function.parameters, *function.assignments} - {"self"}
    for each in ast.walk(test):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _REDUCING:
            operand = each.args[0] if dotted(each.func.value) == "torch" and each.args else each.func.value
            if known & {root_of(path) for path in names_in(operand)} and not _is_shape(operand):
                return True
    return False


def _is_shape(node: ast.expr) -> bool:
    return re.search(r"\.(shape|size|dim|ndim|numel|stride)\b", ast.unparse(node)) is not None


def _is_guarded(block: Block) -> bool:
    if any(each.kind is BlockKind.EXCEPT for each in block.chain()):
        return True
    return any(_GUARDED.search(ast.unparse(test)) for test in tests_around(block, block.function.block))
