"""ESP303: outputs or activations of every batch are kept with their graph."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.definitions import owner_of
from esper_agents.review.hooks import forward_hooks, gathering_lambdas
from esper_agents.review.hot import hot_around, hot_blocks, is_rare
from esper_agents.review.models import forward_calls_in
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.stores import is_emptied, is_made_in, is_read_in, starts_in_init
from esper_agents.review.training import backward_calls_in, loss_of
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, FileTables, Function

_STEPS = 8
# What gives back a tensor on the same graph.
_KEEPING = frozenset(
    {"abs", "add", "chunk", "clone", "contiguous", "cuda", "div", "double", "exp", "flatten", "float", "half", "log"}
    | {"log_softmax", "max", "mean", "min", "mul", "norm", "normalize", "permute", "pow", "relu", "reshape", "sigmoid"}
    | {"softmax", "split", "square", "squeeze", "sub", "sum", "tanh", "to", "transpose", "unsqueeze", "view"}
    | {"masked_fill", "leaky_relu", "gelu", "silu", "elu", "dropout", "clamp", "sqrt", "matmul", "bmm", "cumsum"}
)
# What lets go of the graph.
_LETTING_GO = frozenset(
    {"detach", "detach_", "item", "numpy", "tolist", "argmax", "long", "int", "bool", "size", "float16"}
)
# Modules that keep what passes on purpose.
_RECORDING = re.compile(r"record|observe|logger|track|histor|captur|probe|monitor|buffer|memory", re.IGNORECASE)
_OUTPUTS = frozenset({"logits", "last_hidden_state", "hidden_states", "pooler_output", "attentions"})
_NO_TENSORS = frozenset({"data", "shape", "dtype", "device", "ndim"})


class IntermediatesKept(Rule):
    """Outputs, features or activations of every batch gathered in a list, with their graph and on the device.

    ## Why it costs
    Each of them holds its autograd graph, and with it all activations that a backward would need; even without the
    graph whole outputs fill the device where a number would do. Memory grows with every batch until it is used up.

    ## When it is right
    The list goes into the loss, or is emptied in every step. What is detached, or gathered without gradients to be
    joined for an evaluation, is not reported.

    ## Sources
    PyTorch frequently asked questions, "My model reports cuda runtime error(2): out of memory"; documentation of
    `torch.nn.Module.register_forward_hook`.
    """

    code, name = "ESP303", "intermediates-kept"
    severity, category = Severity.WARNING, Category.MEMORY
    bad = (
        "outputs = []\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    output = model(x)\n"
        "    criterion(output, y).backward()\n"
        "    optimizer.step()\n"
        "    outputs.append(output)\n"
    )
    good = (
        "outputs = []\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    output = model(x)\n"
        "    criterion(output, y).backward()\n"
        "    optimizer.step()\n"
        "    outputs.append(output.detach().cpu())\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield what gathers outputs in training steps, in hooks and in a model's own `forward`."""
        hooks = forward_hooks(file, index)
        for call in file.calls_ending("append", "extend"):
            if not call.receiver or len(call.node.args) != 1 or without_gradients(call.block):
                continue
            put = _Put(call.node, call.receiver, call.node.args[0], call.block, call.line)
            if call.function in hooks:
                yield from self._from_outputs(put, hooks[call.function], "the hook", index)
            elif call.function.name == "forward" and put.is_own:
                yield from self._in_forward(put, index)
            else:
                yield from self._in_step(put, index)
        for gather, names in gathering_lambdas(file):
            put = _Put(gather.node, gather.receiver, gather.node.args[0], gather.block, 0)
            yield from self._from_outputs(put, names, "the hook", index)
        for put in _assigned(file, index):
            yield from self._in_step(put, index)

    def _from_outputs(self, put: _Put, names: frozenset[str], who: str, index: ProjectIndex) -> Iterator[Hit]:
        if put.keeps(names) and not is_emptied(put.store, put.function, index):
            yield self._found(put, who, SEEN)

    def _in_forward(self, put: _Put, index: ProjectIndex) -> Iterator[Hit]:
        owner = owner_of(put.function)
        if owner is None or _RECORDING.search(owner.name):
            return
        if index.is_module(owner) and starts_in_init(put.store, owner):
            inputs = frozenset(name for name in put.function.parameters if name != "self")
            yield from self._from_outputs(put, inputs | _computed(put.function), "every forward", index)

    def _in_step(self, put: _Put, index: ProjectIndex) -> Iterator[Hit]:
        hot = hot_around(put.block, index)
        if hot is None or is_rare(put.block, hot.around, put.line) or is_made_in(put.store, put.function, hot.around):
            return
        outputs = _outputs(put.function, index)
        is_output = any(each.node is put.value for each in forward_calls_in(put.function, index))
        if not is_output and not put.keeps(outputs):
            return
        is_store = hot.basis == SEEN or put.is_own
        if is_store and not _is_used(put, hot.around) and not is_emptied(put.store, put.function, index):
            yield self._found(put, "every training step", hot.basis)

    def _found(self, put: _Put, who: str, basis: str) -> Hit:
        return self.hit(
            put.node,
            f"{who} adds to {put.store!r} a tensor with its graph, which stays on the device",
            remedy="keep `output.detach().cpu()` of what is needed, or only the number that is made of it",
            confidence=Confidence.MODERATE if basis == FOLLOWED else Confidence.HIGH,
            basis=basis,
        )


@dataclass(frozen=True, slots=True)
class _Put:
    """Something that is put into a store.

    Attributes:
        node: What does it.
        store: The store, as written.
        value: What is put in.
        block: Where.
        line: The line; names mean what they mean above it.
    """

    node: ast.AST
    store: str
    value: ast.expr
    block: Block
    line: int

    @property
    def function(self) -> Function:
        """The function in which it happens."""
        return self.block.function

    @property
    def is_own(self) -> bool:
        """Whether the store is an attribute of the object whose method it is."""
        return self.store.startswith("self.") and self.store.count(".") == 1

    def keeps(self, names: frozenset[str]) -> bool:
        """Return whether what is put in surely carries the graph of one of these names."""
        return _keeps(self.value, self.function, self.line, names)


def _assigned(file: FileTables, index: ProjectIndex) -> Iterator[_Put]:
    """Yield what training steps add by `store += [output]` and by `store[step] = output`."""
    hot = (each.around.function for each in hot_blocks(index).values())
    functions = dict.fromkeys(each for each in hot if each.file is file)
    for function in functions:
        for target, assignments in function.assignments.items():
            for each in assignments:
                if each.is_augmented and isinstance(each.value, ast.List):
                    yield _Put(each.statement, target, each.value, each.block, each.line)
                elif isinstance(each.node, ast.Subscript) and not isinstance(each.node.slice, ast.Constant | ast.Slice):
                    yield _Put(each.statement, dotted(each.node.value), each.value, each.block, each.line)


def _keeps(value: ast.expr, function: Function, line: int, names: frozenset[str], steps: int = _STEPS) -> bool:
    """Return whether a value surely carries the graph of one of these names."""
    match value:
        case ast.Name():
            return _named(value, function, line, names, steps)
        case ast.Attribute():
            is_output = value.attr in _OUTPUTS and dotted(value.value) in names
            return value.attr not in _NO_TENSORS and (is_output or _named(value, function, line, names, steps))
        case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if name in _KEEPING:
            of_torch = root_of(dotted(receiver)) in {*function.file.imports, "F", "torch"}
            kept = value.args[0] if of_torch and value.args else receiver
            return _keeps(kept, function, line, names, steps)
        case _:
            return any(_keeps(each, function, line, names, steps) for each in _parts(value))


def _parts(value: ast.expr) -> list[ast.expr]:
    """Return the parts of an expression whose graphs it takes over."""
    parts: list[ast.expr] = []
    match value:
        case ast.Subscript():
            parts = [value.value]
        case ast.Tuple() | ast.List():
            parts = value.elts
        case ast.Dict():
            parts = value.values
        case ast.BinOp():
            parts = [value.left, value.right]
        case _:
            pass
    return parts


def _named(value: ast.Name | ast.Attribute, function: Function, line: int, names: frozenset[str], steps: int) -> bool:
    path = dotted(value)
    last = function.last_assignment(path, line)
    if last is None or last.is_unpacked or last.is_augmented or not steps:
        return path in names
    made = last.value
    if isinstance(made, ast.Call) and path in names:
        return tail_of(dotted(made.func)) not in _LETTING_GO
    return _keeps(made, function, last.line, names, steps - 1)


def _computed(function: Function) -> frozenset[str]:
    """Return what a forward computes by the layers of its own model."""
    return frozenset(
        target
        for target, assignments in function.assignments.items()
        if any(isinstance(each.value, ast.Call) and dotted(each.value.func).startswith("self.") for each in assignments)
    )


def _outputs(function: Function, index: ProjectIndex) -> frozenset[str]:
    """Return the names that hold what a model gave back, losses aside: those are another rule's."""
    calls = {call.node for call in forward_calls_in(function, index)}
    losses = {loss_of(call) for call in backward_calls_in(function)}
    return frozenset(
        target
        for target, assignments in function.assignments.items()
        if any(each.value in calls for each in assignments) and target not in losses and not target.endswith("[]")
    )


def _is_used(put: _Put, around: Block) -> bool:
    """Return whether the step reads the store, or its loss is made of it."""
    if is_read_in(put.store, around, put.node):
        return True
    seen: set[str] = set()
    edge = {loss_of(each) for each in backward_calls_in(put.function)}
    while edge:
        seen |= edge
        made = [each.value for target in edge for each in put.function.assignments.get(target, ())]
        read = (each for value in made for each in walk(value) if isinstance(each, ast.Name | ast.Attribute))
        edge = {dotted(each) for each in read} - seen
    return put.store in seen
