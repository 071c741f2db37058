"""Where square roots are taken, and whether a gradient may flow through one."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.magnitudes import is_number, later_arguments, operand
from esper_agents.review.models import belongs_to_training
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.training import is_backward, losses_of
from esper_agents.review.values import graphs_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

# How many sums are followed from a loss to its parts.
_SUMS = 2
_ROOTS = ("sqrt", "sqrt_", "rsqrt", "rsqrt_")
_HALF = pattern(r"\*\*\s*-?\s*\(?\s*(0?\.5|1\.?0?\s*/\s*2)")
_WANTED = pattern(
    r"loss|^forward|distance|criterion|objective|contrastive|triplet|penalty|energy|chamfer|discrepancy", re.IGNORECASE
)
_METRIC = pattern(
    r"rmse|metric|eval|valid|test|accuracy|score|report|(?<![a-z])log(?!_?(?:p|lik|sum|soft|it|det))|plot|draw",
    re.IGNORECASE,
)
_LAYER = pattern(r"torch\.nn\.(?!functional|init|utils|Module)\w*(?<!Loss)$")
_WITHOUT = pattern(r"^_*(?:init|reset|setup|build|getitem|collate|step|update|main)|_init_?$|initiali")


@dataclass(frozen=True, slots=True)
class Root:
    """A square root.

    Attributes:
        node: The root itself.
        value: What it is taken of.
        block: Where it stands.
        statement: The statement it is part of.
    """

    node: ast.expr
    value: ast.expr
    block: Block
    statement: ast.stmt

    @property
    def is_divisor(self) -> bool:
        """Whether it stands under 1: a division by a norm, whose result at 0 is infinite by itself."""
        return isinstance(self.node, ast.Call) and tail_of(dotted(self.node.func)).startswith("rsqrt")

    @property
    def function(self) -> Function:
        """The function it stands in."""
        return self.block.function

    @property
    def line(self) -> int:
        """The line it starts on."""
        return self.node.lineno


def roots(file: FileTables) -> Iterator[Root]:
    """Yield the square roots of tensors in a file: `x.sqrt()`, `torch.sqrt(x)`, `x.pow(0.5)`, `x ** 0.5`."""
    for call in file.calls_ending(*_ROOTS, "pow", "float_power"):
        value = operand(call.node, call.function)
        rest = later_arguments(call.node, call.function)
        is_root = not rest if call.tail in _ROOTS else len(rest) == 1 and _is_half(rest[0])
        if value is not None and is_root:
            yield Root(call.node, value, call.block, call.statement)
    if _HALF.search(file.text):
        yield from _powers(file)


def _powers(file: FileTables) -> Iterator[Root]:
    """Yield what is raised to the power of a half, in statements that make, give back or hand over values."""
    lines = [number for number, text in enumerate(file.lines, 1) if "**" in text and _HALF.search(text)]
    seen: set[ast.stmt] = set()
    for statement, block in statements(file):
        last = statement.end_lineno or statement.lineno
        if statement in seen or not any(statement.lineno <= line <= last for line in lines):
            continue
        seen.add(statement)
        for node in walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and _is_half(node.right):
                yield Root(node, node.left, block, statement)


def statements(file: FileTables) -> Iterator[tuple[ast.stmt, Block]]:
    """Yield the plain statements that make, give back or hand over values; some of them more than once."""
    for function in file.functions:
        for assignments in function.assignments.values():
            yield from (
                (assignment.statement, assignment.block)
                for assignment in assignments
                if isinstance(assignment.statement, _SIMPLE)
            )
        yield from function.returns
    yield from ((call.statement, call.block) for call in file.calls if isinstance(call.statement, _SIMPLE))


_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)


def _is_half(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return is_number(node.left, 1) and is_number(node.right, 2)
    return is_number(node, 0.5)


def may_be_differentiated(root: Root) -> bool:
    """Return whether nothing in the function says that no gradient flows: no metric, no set-up, no array."""
    function = root.function
    if is_sent_backward(root):
        return True
    is_measured = "metric" in function.file.path and not _WANTED.search(function.name)
    if is_measured or function.is_module or _WITHOUT.search(function.name) or _is_metric(function):
        return False
    owner = owner_of(function)
    if owner is not None and ("__getitem__" in owner.methods or "step" in owner.methods):
        return False
    return not any(call.tail in {"from_numpy", "numpy", "asarray", "item"} for call in function.calls)


def _is_metric(function: Function) -> bool:
    return _METRIC.search(function.name) is not None and "loss" not in function.name.lower()


def is_differentiated(root: Root, index: ProjectIndex) -> bool:
    """Return whether a root is part of a loss or a model: by a name, or because a `forward` or a training calls it."""
    function = root.function
    owner = owner_of(function)
    if is_sent_backward(root) or _WANTED.search(function.name) or (owner is not None and "Loss" in owner.name):
        return True
    around = (function, *(call.function for call in index.callers(function)))
    if any(_is_learned(each, index) or "loss" in each.name.lower() for each in around):
        return True
    return any(
        _is_used_in_loss(caller) and belongs_to_training(caller.function, index) for caller in index.callers(function)
    )


def _is_learned(function: Function, index: ProjectIndex) -> bool:
    """Return whether a function is the `forward` of a network that has layers or weights of its own."""
    if function.name != "forward" or function.owner is None or not index.is_module(function.owner):
        return False
    methods = [method for cls in index.lineage(function.owner).classes for method in cls.methods.values()]
    return any(_LAYER.match(call.name) for method in methods if method.name != "forward" for call in method.calls)


def is_sent_backward(root: Root) -> bool:
    """Return whether what the statement assigns is sent backward in the same function, by itself or in a sum."""
    names = {dotted(each) for each in getattr(root.statement, "targets", ())} - {""}
    sent = {path for call in root.function.calls if names and is_backward(call) for path in losses_of(call)}
    for _ in range(_SUMS):
        made = [each for path in sent for each in root.function.assignments.get(path, ())]
        sent |= {path for each in made for path in graphs_in(each.value)}
    return bool(sent & names)


def _is_used_in_loss(call: Call) -> bool:
    """Return whether what a call gives goes into a loss or is given back."""
    names = [dotted(each) for each in getattr(call.statement, "targets", ())]
    return isinstance(call.statement, ast.Return) or any("loss" in name or "dist" in tail_of(name) for name in names)
