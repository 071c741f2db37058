"""Readiness for torch.compile: what is compiled, what breaks the graph, and where to begin."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.compiled import compiled_functions
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.loaders import LOADERS, loops_over_loaders
from esper_agents.review.models import happens_in
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.tensor_tests import (
    asked_unless,
    asks_a_buffer,
    asks_a_tensor,
    is_reduction,
    names_known,
    tests_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, FileTables, Function

_FETCHES = ("item", "tolist")
_RECURRENT = ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")
_DISABLED = ("torch.compiler.disable", "torch._dynamo.disable")
_PACKING = frozenset({"pack_padded_sequence", "pad_packed_sequence", "pack_sequence"})
_SIZED_BY_DATA = ("nonzero", "unique", "masked_select", "argwhere")
_MASK = pattern(r"(?:^|_)(?:mask|valid|keep|is_[a-z]+)$")
_LOSS = pattern(r"loss|criterion|metric", re.IGNORECASE)
_LAYER = pattern(r"torch\.nn\.(?!functional|init|utils|Module)[A-Z]")
_MOST_MODULES, _LONGEST = 8, 60


class CompileReadiness(FactQuery):
    """What is compiled already, what breaks or recompiles the graph, disabled functions, and what to compile first."""

    name = "compile-readiness"
    topics = ("torch.compile",)
    claim = "something in the compiled code breaks the graph or compiles it again"
    refutes = False
    category = Category.COMPILE
    rules = ("ESP501", "ESP504", "ESP506", "ESP507", "ESP509")
    unseen = (
        "breaks in packages that the model uses, and what compiling gains: a run with `TORCH_LOGS=graph_breaks` tells"
    )
    bad = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.rnn = nn.LSTM(8, 8)\n\n    def forward(self, x):\n"
        "        return self.rnn(x)[0] * x.max().item()\n"
    )
    good = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.fc = nn.Linear(8, 8)\n\n    def forward(self, x):\n"
        "        return self.fc(x).relu()\n"
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield what is compiled, what breaks, and the modules that could be compiled first."""
        compiled = compiled_functions(index)
        parts = index.once("modules that other modules make", lambda: _parts(index))
        for file in files:
            yield from self._calls(file, index)
            yield from self._disabled(file)
            shown = 0
            for owner in file.classes:
                forward = owner.methods.get("forward")
                if forward is None or not index.is_module(owner) or shown >= _MOST_MODULES:
                    continue
                shown += 1
                recurrent = list(self._recurrent(file, forward, is_compiled=forward in compiled))
                yield from recurrent
                if forward not in compiled:
                    is_whole = not recurrent and owner.name not in parts and _is_model(owner, index)
                    yield from self._breaks(file, forward, index, is_whole=is_whole)

    def _calls(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield what is compiled, and batches whose last one has another size."""
        for call in file.calls_to("torch.compile"):
            given = _short(call.node.args[0]) if call.node.args else "the function below"
            options = ", ".join(
                f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in call.node.keywords if keyword.arg
            )
            text = f"`{given}` is compiled{f' with `{options}`' if options else ''}"
            yield self.fact(file, call.node, Assessment.DESCRIPTION, text)
        if not any("torch.compile" in each.text for each in index.files.values()):
            return
        for call in file.calls_to(*LOADERS):
            said = {keyword.arg for keyword in call.node.keywords}
            loops = loops_over_loaders(index).get(call.node, ())
            is_trained = any(happens_in(loop, frozenset({"backward", "manual_backward"}), index) for loop in loops)
            if is_trained and not said & {"drop_last", "batch_sampler", None} and not call.has_splat():
                text = "the last batch is smaller: compiled code is compiled again for its size"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, "add `drop_last=True`")

    def _disabled(self, file: FileTables) -> Iterator[Fact]:
        for function in file.functions:
            if any(decorator.removesuffix("()") in _DISABLED for decorator in function.decorators):
                text = (
                    f"`{function.qualname}` is excluded from compilation: each call of it in compiled code is a break"
                )
                yield self.fact(file, function.node, Assessment.DESCRIPTION, text)

    def _recurrent(self, file: FileTables, forward: Function, *, is_compiled: bool) -> Iterator[Fact]:
        owner = forward.owner
        for path, assignments in owner.attributes.items() if owner is not None else ():
            value = assignments[0].value
            name = resolve(dotted(value.func), assignments[0].block.function) if isinstance(value, ast.Call) else ""
            if name in _RECURRENT and any(call.path == path for call in forward.calls):
                text = f"`{path}` is an nn.{tail_of(name)}: torch.compile leaves the graph there on purpose"
                assessment = Assessment.SHOULD_CHECK if is_compiled else Assessment.OPEN
                remedy = "compile the parts around it, and leave it out of `fullgraph=True`"
                yield self.fact(file, assignments[0].statement, assessment, text, remedy)

    def _breaks(self, file: FileTables, forward: Function, index: ProjectIndex, *, is_whole: bool) -> Iterator[Fact]:
        """Yield what would break the graph of a module that is not compiled yet; else that nothing seen would."""
        found = [*_broken_by(forward)]
        for node, text in found[:3]:
            yield self.fact(file, node, Assessment.OPEN, f"`{forward.qualname}`: {text}, once it is compiled")
        others = [each for each in index.closure(forward) if each is not forward]
        if not found and is_whole and not any(True for each in others for _ in _broken_by(each)):
            text = f"`{forward.qualname}` and what it calls here have no known graph break: it can be compiled"
            yield self.fact(file, forward.node, Assessment.FINE, text)


def _parts(index: ProjectIndex) -> frozenset[str]:
    """Return the names of classes that methods of modules mention: what is compiled is the whole."""
    owners = [owner for file in index.files.values() for owner in file.classes if index.is_module(owner)]
    methods = [(owner, method) for owner in owners for method in owner.methods.values()]
    return frozenset(
        node.id
        for owner, method in methods
        for node in walk(method.node)
        if isinstance(node, ast.Name) and node.id != owner.name
    )


def _is_model(owner: Class, index: ProjectIndex) -> bool:
    """Return whether a module is a model: it has layers or weights, is no loss, and knows what its `forward` runs."""
    forward = owner.methods["forward"]
    if _LOSS.search(owner.name) or any("abstract" in decorator for decorator in forward.decorators):
        return False
    made = [
        (each.block.function, call)
        for one in index.lineage(owner).classes
        for held in one.attributes.values()
        for each in held
        for call in walk(each.value)
        if isinstance(call, ast.Call)
    ]
    has_layers = any(
        _LAYER.match(resolve(dotted(call.func), function)) or _is_module_call(call, function, index)
        for function, call in made
    )
    return has_layers and not _runs_what_it_is_given(forward)


def _is_module_call(call: ast.Call, function: Function, index: ProjectIndex) -> bool:
    made = index.class_called(call, function)
    return made is not None and index.is_module(made)


def _runs_what_it_is_given(forward: Function) -> bool:
    """Return whether a `forward` calls what the constructor was given, which may be anything."""
    owner = forward.owner
    held = owner.attributes if owner is not None else {}
    return any(
        isinstance(each.value, ast.Name) and each.value.id in each.block.function.parameters
        for call in forward.calls
        for each in held.get(call.path, ())
    )


def _broken_by(forward: Function) -> Iterator[tuple[ast.AST, str]]:
    """Yield what breaks the graph in a `forward`."""
    for call in forward.calls:
        if call.tail in _FETCHES and call.receiver and not call.node.args and not call.name.startswith("numpy."):
            yield call.node, f"`{_short(call.node)}` breaks the graph"
        elif call.tail in _SIZED_BY_DATA and call.receiver and not _says_tuple(call):
            yield call.node, f"`{_short(call.node)}` has a size that only the data decides, and breaks the graph"
        elif call.tail in _PACKING and "rnn" in call.name:
            yield call.node, f"`{call.tail}` reads the lengths on the host, and breaks the graph"
        elif call.path in {"int", "float", "bool"} and call.node.args and _is_computed(call.node.args[0], forward):
            yield call.node, f"`{_short(call.node)}` makes a tensor a number, and breaks the graph"
        elif call.tail == "requires_grad_":
            yield call.node, f"`{_short(call.node)}` breaks the graph"
        elif call.path in {"print", "breakpoint", "input"}:
            yield call.node, f"`{call.path}(...)` breaks the graph"
    yield from _broken_by_data(forward)
    for test, _ in tests_of(forward):
        if asks_a_tensor(test, forward) or asks_a_buffer(test, forward):
            first = asked_unless(test, forward)
            unless = f" unless `{first[:_LONGEST]}` decides first" if first else ""
            yield test, f"the branch on `{_short(test)}` asks a tensor, and breaks the graph{unless}"


def _broken_by_data(forward: Function) -> Iterator[tuple[ast.AST, str]]:
    """Yield selections by masks, sparse tensors and changes of `requires_grad`."""
    for node in walk(forward.node):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_mask(node.slice):
            yield node, f"`{_short(node)}` has as many rows as the mask has true ones, and breaks the graph"
        elif isinstance(node, ast.Attribute) and node.attr == "requires_grad" and isinstance(node.ctx, ast.Store):
            yield node, f"`{_short(node)} = ...` breaks the graph"
        elif isinstance(node, ast.Call) and tail_of(dotted(node.func)).startswith("sparse_"):
            yield node, f"`{_short(node.func)}(...)` makes a sparse tensor, which compiled code cannot"


def _is_computed(value: ast.expr, forward: Function) -> bool:
    """Return whether a number is made of a reduced tensor, or of a result of NumPy, which compiled code has as one."""
    known = names_known(forward)
    read = [each.id for each in walk(value) if isinstance(each, ast.Name)]
    made = [found.value for name in read if (found := forward.last_assignment(name, value.lineno)) is not None]
    return any(
        is_reduction(each, known)
        or (isinstance(each, ast.Call) and resolve(dotted(each.func), forward).startswith("numpy."))
        for part in (value, *made)
        for each in walk(part)
    )


def _is_mask(node: ast.expr) -> bool:
    """Return whether an index selects by a mask: a comparison, or a name that says so."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return _is_mask(node.operand)
    is_named = _MASK.search(tail_of(dotted(node))) is not None if dotted(node) else False
    return is_named or (isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.Gt | ast.GtE | ast.LtE))


def _says_tuple(call: Call) -> bool:
    return any(keyword.arg == "as_tuple" for keyword in call.node.keywords)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).replace("`", "'").split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
