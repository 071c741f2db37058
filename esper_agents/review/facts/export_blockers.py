"""Code of exported modules that an exporter refuses or fixes to the sizes of the example."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.domain.pluralize import number_of
from esper_agents.review.blocks import BlockKind
from esper_agents.review.compiled import traced_function
from esper_agents.review.conditions import tests_around
from esper_agents.review.definition_text import named_definition
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.tables import Function
from esper_agents.review.tensor_tests import asked_unless, asks_a_tensor, tests_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.blocks import Block
    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, FileTables

_EXPORTS = (
    "torch.onnx.export",
    "torch.export.export",
    "torch.jit.trace",
    "torch.jit.trace_module",
    "torch.onnx.dynamo_export",
)
_SIZES = ("dynamic_axes", "dynamic_shapes")
_GUARD = pattern(r"is_scripting|is_tracing|is_in_onnx_export|is_exporting|is_compiling|exporting")
_LOSS = pattern(r"loss|criterion|metric|discriminator", re.IGNORECASE)
# Decorators of functions that a trace compiles as they are written.
_SCRIPTED = pattern(r"(?:^|\.)(?:script_if_tracing|jit\.script|script)\b")
_PLAIN = pattern(
    r"(?:int|float|bool|str|None|Tuple|tuple|List|list|Dict|dict|Sequence|Optional|Union|Mapping|torch\.(?:dtype|Size|device)"
    r"|dtype|device|[\[\]|,. ])+"
)
_ALONE = "this module is exported"
_MANY_SIZES = frozenset({"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere"})
_SIZE = pattern(r"\.shape\b|\.size\(|\blen\(")
# Channels are the same for all inputs.
_FREE_SIZE = pattern(r"\.shape\[(?!1\])|\.size\((?!1\))|\blen\(")
_NUMBERS = frozenset({"item", "tolist"})
_REPORTING = pattern(r"^(?:print|warn)|warnings\.warn|log(?:ger|ging)?\.")
_MOST, _MOST_METHODS = 200, 8


class ExportBlockers(FactQuery):
    """Branches on tensors, numbers taken out of the graph, sizes and devices fixed by the example, kinds of outputs."""

    name = "export-blockers"
    topics = ("export",)
    claim = "the exporter refuses the model or fixes it to its example"
    category = Category.COMPILE
    rules = ("ESP513", "ESP514")
    unseen = "which operators the target runtime supports"
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Net(nn.Module):\n"
        "    def forward(self, x):\n"
        "        if x.sum() > 0:\n"
        "            return x\n"
        "        return -x\n"
        "\n"
        "\n"
        'torch.onnx.export(Net().eval(), torch.zeros(1, 8), "net.onnx", dynamo=True)\n'
    )
    good = bad.replace(
        "        if x.sum() > 0:\n            return x\n        return -x\n", "        return x.abs()\n"
    ).replace("dynamo=True", "dynamo=True, dynamic_shapes={}")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about exports, and about the code of the modules that they trace."""
        calls = [call for file in files for call in file.calls_to(*_EXPORTS)]
        for call in calls:
            yield from self._call(call)
        # A named function is what is asked, in whatever file its work is.
        by_name = [] if calls else _named_functions(index, subject)
        traced = _exported(calls, files, index, subject)
        is_clean, read = True, traced if by_name else [each for each in traced if each.file in files]
        is_asked = any(traced_function(call, index) is not None for call in calls) or bool(subject.symbols)
        assumption = "" if is_asked else _ALONE
        for function in read:
            # By their names alone, methods may belong to an object that this call does not make.
            reached = f"`{by_name[0].name}` reaches it" if by_name and function not in by_name else assumption
            for fact in self._function(function, reached):
                is_clean = False
                yield fact
        if read and is_clean and not by_name:
            text = f"`{read[0].qualname}` has no branch on a tensor and takes no number out of the graph"
            if len(read) > 1:
                others = number_of(len(read) - 1, "further function")
                text = (
                    f"neither `{read[0].qualname}` nor {others} branches on a tensor or takes a number out of the graph"
                )
            yield self.fact(read[0].file, read[0].node, Assessment.DESCRIPTION, text)

    def _call(self, call: Call) -> Iterator[Fact]:
        file = call.function.file
        if any(call.argument(-1, name) is not None for name in _SIZES):
            yield self.fact(file, call.node, Assessment.DESCRIPTION, "the export names the sizes that may change")
        elif call.name == "torch.jit.trace" or call.has_splat():
            return
        else:
            text = (
                "no size is dynamic: the exported model takes inputs of the example's sizes only, batch size included"
            )
            is_onnx = "onnx" in call.name
            remedy = 'pass `dynamic_shapes={"x": {0: torch.export.Dim("batch")}}`'
            if is_onnx and not _has_dynamo(call):
                remedy = 'pass `dynamic_axes={"input": {0: "batch"}}`, or `dynamic_shapes` with `dynamo=True`'
            yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _function(self, function: Function, assumption: str) -> Iterator[Fact]:
        file, name = function.file, function.qualname
        if scripted := next((decorator for decorator in function.decorators if _SCRIPTED.search(decorator)), ""):
            text = f"`{name}` is scripted by `{scripted}`: TorchScript keeps its branches, `torch.export` does not"
            if any(asks_a_tensor(test, function) for test, _ in tests_of(function)):
                yield self.fact(file, function.node, Assessment.OPEN, text)
            return
        for test, block in tests_of(function):
            if asks_a_tensor(test, function) and not _is_guarded(block):
                text = f"`{name}` branches on `{ast.unparse(test)[:50]}`: export refuses it, a trace keeps one arm"
                first = asked_unless(test, function)
                under = f"`{first[:50]}` does not decide first" if first else assumption
                yield self.problem(file, test, text, _remedy(test, function), assumption=under)
        for call in function.calls:
            if not _is_guarded(call.block):
                yield from self._in_call(file, function, call, assumption)
        for block in function.blocks:
            yield from self._loop(file, function, block, assumption)
        if function.name == "forward":
            yield from self._interface(file, function)
            yield from self._inputs(file, function)

    def _in_call(self, file: FileTables, function: Function, call: Call, assumption: str) -> Iterator[Fact]:
        root = root_of(call.receiver)
        is_tensor = root in {*function.parameters, *function.assignments} - {"self"}
        if call.tail in _NUMBERS and not call.node.args and is_tensor and not _SIZE.search(call.receiver):
            text = f"`{call.path}()` takes a number out of the graph: a trace keeps that of its example"
            under = assumption or "a trace is exported"
            yield self.problem(file, call.node, text, "keep it a tensor", assumption=under)
        elif call.tail == "numpy" and call.receiver and is_tensor:
            text = f"`{call.path}()` leaves torch, so what follows is a constant in the exported model"
            yield self.problem(file, call.node, text, "use the function of torch", assumption=assumption)
        elif call.tail in _MANY_SIZES and (call.name.startswith("torch.") or is_tensor):
            text = f"the size of `{call.path}(...)` depends on the data, and many runtimes take fixed sizes only"
            under = assumption or "the target runtime is one of them"
            yield self.problem(file, call.node, text, "use a mask or `torch.topk`", assumption=under)
        elif call.path == "int" and call.node.args and _FREE_SIZE.search(ast.unparse(call.node.args[0])):
            text = f"`{ast.unparse(call.node)[:50]}` makes a size a plain number: a trace keeps that of its example"
            remedy = "leave out `int`, and divide sizes by `//`"
            yield self.problem(file, call.node, text, remedy, assumption=assumption or "a trace is exported")
        elif call.tail == "cuda" and call.receiver and is_tensor and not any(tests_around(call.block, function.block)):
            text = f"`{call.path}()` writes the GPU into the exported model"
            remedy = "make it on the device of an input"
            yield self.problem(file, call.node, text, remedy, assumption=assumption or "another device is to run it")

    def _loop(self, file: FileTables, function: Function, block: Block, assumption: str) -> Iterator[Fact]:
        """Yield loops over a size of an input, which are unrolled, and loops that run until a value is reached."""
        if isinstance(block.node, ast.While) and _is_open_ended(block.node.test) and not _is_guarded(block):
            test = block.node.test
            if not asks_a_tensor(test, function):
                text = f"`while {ast.unparse(test)[:50]}` runs as often as these values say: export cannot trace it"
                remedy = "run a fixed number of rounds, use `torch.while_loop`, or keep the loop outside the export"
                yield self.problem(file, test, text, remedy, assumption="these values are tensors")
            return
        if not isinstance(block.node, ast.For) or _is_guarded(block):
            return
        rounds = block.node.iter
        is_range = isinstance(rounds, ast.Call) and dotted(rounds.func) == "range"
        origins = [ast.unparse(each) for each in walk(rounds) if isinstance(each, ast.Name)]
        sizes = [name for name in origins if _is_size_of_input(name, function)]
        if is_range and (_reads_a_size(rounds, function) or sizes) and "self." not in ast.unparse(rounds):
            text = f"the loop over `{ast.unparse(rounds)[:40]}` is unrolled as often as the example asks"
            remedy = "compute it for all at once, or export with this size fixed on purpose"
            under = assumption or "this size differs between inputs"
            yield self.problem(file, rounds, text, remedy, assumption=under)

    def _interface(self, file: FileTables, function: Function) -> Iterator[Fact]:
        for statement, _ in function.returns:
            numbers = [each for each in walk(statement) if isinstance(each, ast.Call) and dotted(each.func) == "float"]
            if isinstance(statement.value, ast.Dict) and not numbers:
                text = "the outputs are a dict: an ONNX model returns its values in this order, without the keys"
                remedy = "return a tuple, or pass `output_names`"
                yield self.fact(file, statement, Assessment.SHOULD_CHECK, text, remedy)

    def _inputs(self, file: FileTables, function: Function) -> Iterator[Fact]:
        """Yield where `forward` changes its inputs in place."""
        own = set(function.parameters) - {"self"}
        rebound = {path for path, held in function.assignments.items() if any(not each.is_augmented for each in held)}
        for path, held in function.assignments.items():
            name = path.removesuffix("[]")
            for each in held:
                is_written = (path.endswith("[]") or each.is_augmented) and name in own - rebound
                if is_written and _is_tensor_like(name, function):
                    text = f"`{name}` is an input and is changed in place, which the caller of the exported model sees"
                    yield self.fact(file, each.statement, Assessment.SHOULD_CHECK, text, f"work on `{name}.clone()`")
                    return


def _named_functions(index: ProjectIndex, subject: InspectionSubject) -> list[Function]:
    """Return the functions that a subject names, without methods."""
    found = (named_definition(symbol, index) for symbol in subject.symbols)
    return [each for each in found if isinstance(each, Function) and each.owner is None]


def _by_name(call: Call, index: ProjectIndex) -> Sequence[Function]:
    """Return what a call may run: of an object that a table makes, the methods of this name and their versions."""
    called = index.possible_callees(call)
    methods = [each for each in index.functions.get(call.tail, ()) if each.owner is not None] if call.receiver else []
    return methods if len(called) < len(methods) <= _MOST_METHODS else called


def _is_open_ended(test: ast.expr) -> bool:
    """Return whether a loop compares two values of the program with each other, and no count."""
    compared = [each for each in walk(test) if isinstance(each, ast.Compare)]
    sides = [side for each in compared for side in (each.left, *each.comparators)]
    return any(
        all(
            isinstance(side, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp)
            for side in (one.left, *one.comparators)
        )
        and any(isinstance(operator, ast.Lt | ast.Gt | ast.LtE | ast.GtE) for operator in one.ops)
        for one in compared
    ) and not any(_SIZE.search(ast.unparse(side)) and len(compared) == 1 for side in sides)


def _exported(
    calls: Sequence[Call], files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject
) -> list[Function]:
    """Return the functions that exported modules run; those of the modules in question if nothing is exported yet."""
    found = [function for call in calls if (function := traced_function(call, index)) is not None]
    if not found:
        named = {symbol.rpartition(":")[2].partition(".")[0] for symbol in subject.symbols}
        classes = [cls for file in files for cls in file.classes if index.is_module(cls)]
        asked = [cls for cls in classes if cls.name in named] or [cls for cls in classes if _is_model(cls)]
        found = [each.methods["forward"] for each in asked if "forward" in each.methods]
        found = [each for each in found if _takes_a_tensor(each)]
    by_name = [] if calls else _named_functions(index, subject)
    found = by_name or found
    queue = list(dict.fromkeys(found))
    for each in queue:
        if len(queue) > _MOST:
            break
        called = [
            one
            for call in each.calls
            if not _is_guarded(call.block)
            for one in (_by_name(call, index) if by_name else index.callees(call))
        ]
        queue += [one for one in dict.fromkeys(called) if one not in queue and one.name != "__init__"]
    return queue


def _takes_a_tensor(function: Function) -> bool:
    """Return whether a function may take tensors: not if annotations say that all its arguments are something else."""
    given = function.node.args if not isinstance(function.node, ast.Module) else None
    own = [each for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg != "self"] if given else []
    notes = [ast.unparse(each.annotation) for each in own if each.annotation is not None]
    return len(notes) < len(own) or not own or any(_PLAIN.fullmatch(note) is None for note in notes)


def _is_model(owner: Class) -> bool:
    return _LOSS.search(owner.name) is None


def _remedy(test: ast.expr, function: Function) -> str:
    """Return what to do about a branch on a tensor: one that only reports need not be in the exported model."""
    nodes = [block.node for block in function.blocks if isinstance(block.node, ast.If)]
    found = next((node for node in nodes if node.test is test), None)
    if found is not None and not found.orelse and all(_only_reports(each) for each in found.body):
        return "put it under `if not torch.compiler.is_compiling():`"
    return "choose by `torch.where` or `torch.cond`"


def _only_reports(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return "logger" in ast.unparse(statement.value).lower()
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return isinstance(statement, ast.Raise) or (is_call and _REPORTING.search(ast.unparse(statement)) is not None)


def _has_dynamo(call: Call) -> bool:
    dynamo = call.argument(-1, "dynamo")
    return isinstance(dynamo, ast.Constant) and dynamo.value is True


def _is_guarded(block: Block) -> bool:
    """Return whether code runs only outside of an export, or in training."""
    for each in block.chain():
        if isinstance(each.node, ast.If) and each.kind in {BlockKind.IF, BlockKind.ELSE}:
            test = ast.unparse(each.node.test)
            is_training = "training" in test and (each.kind is BlockKind.IF) != ("not " in test)
            if is_training or _GUARD.search(test):
                return True
    return False


def _reads_a_size(rounds: ast.expr, function: Function) -> bool:
    """Return whether a loop reads a size of a tensor; a list that the function makes has the length of its code."""
    lists = {path for path, held in function.assignments.items() if any(_is_list(each.value) for each in held)}
    measured = [dotted(each.args[0]) for each in walk(rounds) if isinstance(each, ast.Call) and each.args]
    return _SIZE.search(ast.unparse(rounds)) is not None and not lists & set(measured)


def _is_list(value: ast.expr) -> bool:
    return isinstance(value, ast.List | ast.ListComp | ast.Dict | ast.Tuple)


def _is_size_of_input(name: str, function: Function) -> bool:
    """Return whether a name holds a size of an input, such as `B` of `B, T, C = x.shape`."""
    values = [ast.unparse(each.value) for each in function.assignments.get(name, ())]
    return bool(values) and all(_SIZE.search(value) for value in values) and "self." not in " ".join(values)


def _is_tensor_like(name: str, function: Function) -> bool:
    """Return whether a parameter is used as a tensor: it has a shape, or a method of tensors runs on it."""
    tails = {call.tail for call in function.calls if call.receiver == name}
    text = ast.unparse(function.node)
    return (
        bool(tails & {"view", "size", "permute", "reshape", "transpose", "mean", "sum", "to"})
        or f"{name}.shape" in text
    )
