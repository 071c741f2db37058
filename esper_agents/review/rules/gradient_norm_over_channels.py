"""ESP281: a gradient penalty takes the norm over one axis of images, not over each sample."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_RANDOM = frozenset({"rand", "randn", "empty"})
_VIEWS = frozenset({"view", "reshape", "expand", "repeat"})
# Samples have more than one axis of their own from three axes on.
_AXES = 3
_STEPS = 4


class GradientNormOverChannels(FileRule):
    """The gradient penalty of images takes the norm over axis 1 alone.

    ## Why it costs
    The penalty wants the norm of the gradient of each sample. Over axis 1 of images it is one norm for each pixel over
    the channels: every pixel is pushed to norm 1, the norm of the whole becomes the square root of the number of
    pixels, and the critic is no longer 1-Lipschitz as the method needs.

    ## When it is right
    Samples with a single axis, and gradients that are flattened first. Only gradients are judged of inputs that the
    function shows to have three axes or more: mixed with `torch.rand(n, 1, 1, 1)`.

    ## Sources
    Gulrajani et al., "Improved Training of Wasserstein GANs", algorithm 1.
    """

    code, name = "ESP281", "gradient-norm-over-channels"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def gradient_penalty(critic, real, fake):\n"
        "    eps = torch.rand(real.size(0), 1, 1, 1)\n"
        "    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)\n"
        "    grads = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]\n"
        "    return ((grads.norm(2, dim=1) - 1) ** 2).mean()\n"
    )
    good = bad.replace("grads.norm(2, dim=1)", "grads.flatten(1).norm(2, dim=1)")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the norms over axis 1 of gradients of inputs with more axes."""
        for call in file.calls_to("torch.autograd.grad"):
            inputs, function = call.argument(1, "inputs"), call.function
            if inputs is None or not _has_axes(inputs, function, call.line, _STEPS):
                continue
            for norm, subject in _norms(function):
                if _is_gradient(subject, call, norm.lineno, _STEPS):
                    yield self.hit(
                        norm,
                        "this is a norm over axis 1 alone, one for each position, and not the norm of each sample's "
                        "gradient",
                        remedy="flatten the gradient first: `.flatten(1).norm(2, dim=1)`",
                        basis=SEEN,
                    )


def _norms(function: Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the norms over axis 1 in a function, each with what it is a norm of."""
    for call in function.calls:
        node = call.node
        if call.tail in {"norm", "vector_norm"}:
            is_function = call.name.startswith("torch.") and "(" not in call.name
            subject = (call.argument(0, "input") or call.argument(0, "x")) if is_function else _receiver(node)
            axis = call.argument(2 if is_function else 1, "dim") or call.argument(9, "axis")
            if subject is not None and _is_one(axis):
                yield node, subject
        elif call.tail == "sum" and isinstance(node.func, ast.Attribute) and _is_one(call.argument(0, "dim")):
            squared = _squared(node.func.value)
            if squared is not None and isinstance(call.parent, ast.Attribute) and call.parent.attr == "sqrt":
                yield node, squared


def _receiver(node: ast.Call) -> ast.expr | None:
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def _is_one(axis: ast.expr | None) -> bool:
    if isinstance(axis, ast.Tuple | ast.List) and len(axis.elts) == 1:
        axis = axis.elts[0]
    return isinstance(axis, ast.Constant) and axis.value == 1 and axis.value is not True


def _squared(node: ast.expr) -> ast.expr | None:
    """Return what is squared in `g ** 2`, `g.pow(2)`, `g.square()`, also with a small number added."""
    match node:
        case ast.BinOp(left=left, op=ast.Pow()):
            return left
        case ast.BinOp(left=left, op=ast.Add()):
            return _squared(left)
        case ast.Call(func=ast.Attribute(value=value, attr="pow" | "square")):
            return value
        case _:
            return None


def _is_gradient(node: ast.expr, made: Call, line: int, steps: int) -> bool:
    """Return whether a value is what `torch.autograd.grad` returned, with its axes as they were."""
    inner: ast.expr | None = None
    match node if steps else None:
        case ast.Call() as call if call is made.node:
            return True
        case ast.Subscript(value=ast.Call() | ast.Name() as value, slice=ast.Constant()):
            inner = value
        case ast.Call(func=ast.Attribute(value=value, attr="float" | "to" | "contiguous" | "clone")):
            inner = value
        case ast.BinOp(left=left, op=ast.Add() | ast.Div() | ast.Mult(), right=ast.Constant()):
            inner = left
        case ast.Name(id=name):
            found = made.function.last_assignment(name, line)
            inner, line = (found.value, found.line) if found is not None else (None, line)
        case _:
            pass
    return inner is not None and _is_gradient(inner, made, line, steps - 1)


def _has_axes(node: ast.expr, function: Function, line: int, steps: int) -> bool:
    """Return whether a value is computed with factors that have three axes or more, such as `rand(n, 1, 1, 1)`."""
    for each in walk(node) if steps else ():
        if isinstance(each, ast.Call):
            if _is_flat(each):
                return False
            if _sizes(each) >= _AXES:
                return True
        elif isinstance(each, ast.Name):
            found = function.last_assignment(each.id, line)
            if found is not None and _has_axes(found.value, function, found.line, steps - 1):
                return True
        elif isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Tuple):
            added = [part for part in each.slice.elts if isinstance(part, ast.Constant) and part.value is None]
            if len(added) >= _AXES - 1:
                return True
    return False


def _sizes(call: ast.Call) -> int:
    """Return how many axes a call of `rand` or `view` with ones names."""
    tail = tail_of(dotted(call.func))
    if tail not in _VIEWS | _RANDOM:
        return 0
    given = call.args[0] if len(call.args) == 1 else None
    sizes = given.elts if isinstance(given, ast.Tuple | ast.List) else call.args
    ones = [each for each in sizes[1:] if isinstance(each, ast.Constant) and each.value == 1]
    return len(sizes) if ones and len(ones) == len(sizes) - 1 else 0


def _is_flat(call: ast.Call) -> bool:
    """Return whether a call flattens: `.flatten(1)`, `.view(n, -1)`."""
    tail = tail_of(dotted(call.func))
    return tail == "flatten" or (tail in _VIEWS and "-1" in {ast.unparse(each) for each in call.args[1:]})
