"""ESP501: compiled code does something that cannot be in a graph."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, ClassVar

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.compiled import compiled_in
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Example, Rule, RuntimeExpectation
from esper_agents.review.tensor_tests import asks_a_tensor, is_reduction, names_known, tests_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.compiled import CompiledBy
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_UNLESS = " (unless `torch._dynamo.config.capture_scalar_outputs` is set)"
_UNLESS_COUNTED = " (unless `torch._dynamo.config.capture_dynamic_output_shape_ops` is set)"
_REMEDY = "move it out of the compiled code; choose between values with `torch.where` rather than `if`"
_BACKWARD = (
    "compile the model alone, or let the compiler trace it where torch has `torch._dynamo.config.trace_autograd_ops`"
)
_PLAIN = frozenset({"print", "open", "input", "breakpoint"})
_NAMED = frozenset(
    {"torch.save", "torch.manual_seed", "torch.autograd.grad", "warnings.warn", "pdb.set_trace", "sys.stdout.write"}
    | {"time.time", "time.perf_counter", "time.sleep", "time.monotonic", "time.process_time", "time.strftime"}
    | {"random.random", "random.choice", "random.shuffle", "random.seed", "gc.collect", "uuid.uuid4"}
    | {"datetime.datetime.now", "os.getpid", "os.path.exists", "os.makedirs"}
)
# What returns as many elements as the values of its input say.
_COUNTED = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "where"})
_NUMBERS = frozenset({"float", "int", "bool"})
_METHODS = frozenset({"item", "tolist", "backward"})
# With `capture_scalar_outputs` and `capture_dynamic_output_shape_ops`, which `fullgraph=True` turns on, these stay.
_FETCHES = frozenset({"item", "tolist"})
_CAPTURED = pattern(r"capture_(?:scalar_outputs|dynamic_output_shape_ops)\s*=\s*True")
_LOGGING = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
# Said under an `if`, or in a function that may be called under one, these are for the rare case.
_RARE = _LOGGING | {"warn", "print"}
_LOGGER = pattern(r"_*(log|logger|logging)", re.IGNORECASE)
_GUARDED = pattern(r"is_compiling|is_dynamo_compiling|is_scripting|is_tracing|debug|verbose|isEnabledFor")
_COMPILING = pattern(r"is_\w*compiling|is_exporting|is_scripting|is_tracing")


class GraphBreak(Rule):
    """A print, a fetch or a branch on a tensor's value inside code that `torch.compile` runs.

    ## Why it costs
    At each of these the compiled graph ends, Python takes over, and a new graph begins: fusion stops there, and the
    overhead of two graphs replaces that of one. Under `fullgraph=True` it is an error instead.

    ## When it is right
    The break is rare or cheap and known. Code under `torch.compiler.is_compiling()`, under a debugging flag, in an
    `except`, or in a function marked `torch.compiler.disable` is not reported, nor are `.cpu()` and `.numpy()`, which
    are traced. `.item()`, `.tolist()`, `float(tensor)` and `int(tensor)` stay in the graph where
    `torch._dynamo.config.capture_scalar_outputs` is on, and `nonzero`, `unique`, `masked_select` and their like where
    `capture_dynamic_output_shape_ops` is, as both are under `fullgraph=True`. A `backward()` in a compiled step is a
    suggestion, because forward and backward are compiled all the same, and so are checks that only raise.

    ## Sources
    PyTorch documentation of `torch.compile`, on graph breaks; each pattern was tried with torch 2.13.
    """

    code, name = "ESP501", "graph-break"
    severity, category = Severity.WARNING, Category.COMPILE
    shown = RuntimeExpectation.BREAKS
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

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what breaks the graph in the compiled functions of the file."""
        is_captured = index.once("scalars are captured", lambda: _captures_scalars(index))
        for function, by in compiled_in(file, index).items():
            broken: set[int] = set()
            for call in function.calls:
                what = _breaking_call(call, by, is_captured=is_captured) or _asserts(call, function)
                if what and not _is_guarded(call.block):
                    broken.add(call.line)
                    is_minor = call.tail == "backward" and not by.is_whole
                    yield self._found(call.node, what, function, by, is_minor=is_minor)
            for test, outside in tests_of(function):
                is_break = test.lineno not in broken and asks_a_tensor(test, function) and not _is_guarded(outside)
                if is_break and not _asks_the_compiler(test, function):
                    is_minor = _only_refuses(test, function)
                    yield self._found(test, "a branch on a tensor's value", function, by, is_minor=is_minor)
            for node in () if by.is_whole or is_captured else _masked(function, broken):
                yield self._found(node, f"picking by a mask{_UNLESS_COUNTED}", function, by)

    def _found(
        self, node: ast.AST, what: str, function: Function, by: CompiledBy, *, is_minor: bool = False
    ) -> RuleMatch:
        effect = "is an error under `fullgraph=True`" if by.is_whole else "ends the compiled graph"
        is_far = by.calls > 1
        surely = Confidence.HIGH if by.is_direct else Confidence.MODERATE
        return self.hit(
            node,
            f"{what} {effect}: {function.qualname!r} is compiled at {by.path}:{by.line}",
            remedy=_BACKWARD if what.startswith("`backward") else _REMEDY,
            confidence=Confidence.LOW if is_far else surely,
            basis=SEEN if by.is_direct and by.path == function.file.path else FOLLOWED,
            severity=Severity.SUGGESTION if is_far or (is_minor and not by.is_whole) else None,
        )


def _captures_scalars(index: ProjectIndex) -> bool:
    return any(_CAPTURED.search(file.text) is not None for file in index.files.values())


def _breaking_call(call: Call, by: CompiledBy, *, is_captured: bool) -> str:
    """Return what a call does that no graph can hold, in words; empty where it does nothing of the kind."""
    is_fetch = call.tail in _FETCHES or (call.path in _NUMBERS and _fetches(call))
    is_counted = call.tail in _COUNTED and _counts(call)
    if (is_fetch or is_counted) and (by.is_whole or is_captured):
        return ""
    if call.tail in _RARE and (by.is_sometimes or any(tests_around(call.block, call.function.block))):
        return ""
    is_plain = call.path in _PLAIN or call.name in _NAMED
    is_method = call.tail in _METHODS and bool(call.receiver) and not call.node.args
    is_logging = call.tail in _LOGGING and _LOGGER.fullmatch(tail_of(call.receiver)) is not None
    if not (is_plain or is_method or is_logging or is_fetch or is_counted):
        return ""
    unless = _UNLESS if is_fetch else _UNLESS_COUNTED if is_counted else ""
    return f"`{call.tail}(...)`{unless}"


def _fetches(call: Call) -> bool:
    """Return whether a `float(...)` or its like surely takes a tensor: a reduction of one, or a name bound to that."""
    if len(call.node.args) != 1:
        return False
    value, known = call.node.args[0], names_known(call.function)
    made = call.function.last_assignment(value.id, call.line) if isinstance(value, ast.Name) else None
    if made is not None and not made.is_unpacked and not made.is_augmented:
        value = made.value
    return is_reduction(value, known) or _is_reduced_array(value)


def _is_reduced_array(value: ast.expr) -> bool:
    """Return whether numpy reduces a tensor: `np.percentile(x.cpu().numpy(), 99)`."""
    return (
        isinstance(value, ast.Call)
        and dotted(value.func).startswith(("np.", "numpy."))
        and any(".numpy()" in f"{dotted(arg)}" for arg in value.args)
    )


def _counts(call: Call) -> bool:
    """Return whether a call such as `unique` is surely a tensor's."""
    if call.tail == "where":
        return call.name == "torch.where" and len(call.node.args) == 1 and not call.node.keywords
    if call.receiver == "torch" or call.name.startswith("torch."):
        return bool(call.node.args)
    if isinstance(call.node.func, ast.Attribute) and isinstance(call.node.func.value, ast.Compare):
        return True
    return root_of(call.receiver) in call.function.parameters and root_of(call.receiver) != "self"


def _asserts(call: Call, function: Function) -> str:
    """Return `assert not ...` on a tensor's value in words; without the `not`, torch defers it into the graph."""
    statement = call.statement
    if not isinstance(statement, ast.Assert) or not isinstance(statement.test, ast.UnaryOp):
        return ""
    is_denied = isinstance(statement.test.op, ast.Not) and statement.test.operand is call.node
    return "`assert not` on a tensor's value" if is_denied and is_reduction(call.node, names_known(function)) else ""


def _is_guarded(block: Block) -> bool:
    if any(each.kind is BlockKind.EXCEPT for each in block.chain()):
        return True
    return any(_GUARDED.search(ast.unparse(test)) for test in tests_around(block, block.function.block))


def _asks_the_compiler(test: ast.expr, function: Function) -> bool:
    """Return whether a test asks first if the code is being compiled, itself or through a name: it stops there."""
    first = test.values[:-1] if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else []
    for path in {path for each in first for path in names_in(each)}:
        made = function.last_assignment(path, test.lineno)
        if _GUARDED.search(path) or (made is not None and _COMPILING.search(ast.unparse(made.value))):
            return True
    return False


def _only_refuses(test: ast.expr, function: Function) -> bool:
    """Return whether all that hangs on a test is an error or a warning."""
    node = next((block.node for block in function.blocks if getattr(block.node, "test", None) is test), None)
    if not isinstance(node, ast.If) or node.orelse:
        return False
    return all(isinstance(each, ast.Raise) or _warns(each) for each in node.body)


def _warns(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _RARE


def _masked(function: Function, broken: set[int]) -> Iterator[ast.Subscript]:
    """Yield where a tensor is read by a comparison: `x[x > 0]` holds as many elements as its values say."""
    known = names_known(function)
    for each in walk(function.node):
        if not isinstance(each, ast.Subscript) or not isinstance(each.slice, ast.Compare) or each.lineno in broken:
            continue
        of = {root_of(path) for path in names_in(each.slice.left)}
        if isinstance(each.ctx, ast.Load) and root_of(dotted(each.value)) in of & known:
            yield each
