"""ESP121: an optimizer is given a tensor that was moved or changed after it was made to require gradients."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, FileRule, RuntimeExpectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_NEW = frozenset({"randn", "rand", "zeros", "ones", "empty", "full", "tensor", "normal", "eye", "zeros_like"})
_MOVING = frozenset({"to", "cuda", "half", "float", "double", "bfloat16"})
_CHANGING = frozenset({"mul", "div", "view", "reshape", "unsqueeze", "squeeze", "clone", "expand", "transpose"})
_OPTIMIZERS = "torch.optim."


class MovedLeafOptimized(FileRule):
    """An optimizer over a tensor such as `torch.zeros(3, requires_grad=True).to(device)`, which is no leaf.

    ## Why it costs
    `.to(device)`, `.cuda()` or `* 0.1` return a new tensor that was computed from the one that requires gradients. The
    optimizer raises "can't optimize a non-leaf Tensor". On the CPU a move returns the tensor itself and everything
    runs, so the first job on a GPU fails.

    ## When it is right
    `torch.zeros(3, device=device, requires_grad=True)`, or `.requires_grad_()` behind the move.

    ## Sources
    PyTorch documentation of `torch.Tensor.is_leaf`, which has this very example.
    """

    code, name = "ESP121", "moved-leaf-optimized"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    shown = RuntimeExpectation.RAISES
    bad = (
        "import torch\n"
        "\n"
        'image = torch.zeros(3, 64, 64, requires_grad=True).to("cuda")\n'
        "optimizer = torch.optim.Adam([image], lr=0.1)\n"
    )
    good = bad.replace('requires_grad=True).to("cuda")', 'requires_grad=True, device="cuda")')

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the tensors that an optimizer cannot have."""
        for name in [each for each in file.by_name if each.startswith(_OPTIMIZERS) and "lr_scheduler" not in each]:
            for call in file.calls_to(name):
                for path in _given(call):
                    found = call.function.last_assignment(path, call.line)
                    how = _how(found, call.function) if found is not None else ""
                    if found is None or not how:
                        continue
                    is_move = how in _MOVING
                    yield self.hit(
                        found.statement,
                        f"{path!r} is what `{how}` computes from a tensor that requires gradients: the optimizer in "
                        f"line {call.line} refuses it, because it is no leaf",
                        remedy="move or scale the values first, and call `requires_grad_()` on the result",
                        confidence=Confidence.MODERATE if is_move else Confidence.HIGH,
                        basis=f"{SEEN}; to the device that a tensor is on, a move is none" if is_move else SEEN,
                    )


def _given(call: Call) -> list[str]:
    """Return the paths that an optimizer is given in a list, itself or by groups."""
    first = call.argument(0, "params")
    if isinstance(first, ast.Name):
        made = call.function.last_assignment(first.id, call.line)
        first = made.value if made is not None and not made.is_unpacked else first
    if not isinstance(first, ast.List | ast.Tuple):
        return []
    paths: list[str] = []
    for part in first.elts:
        values = part.values if isinstance(part, ast.Dict) else [part]
        for value in values:
            listed = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            paths += [dotted(each) for each in listed if isinstance(each, ast.Name | ast.Attribute)]
    return paths


def _how(found: Assignment, function: Function) -> str:
    """Return by what an assigned tensor is computed from a leaf that requires gradients; empty if it is not."""
    value, how = found.value, ""
    if found.is_unpacked or found.is_augmented:
        return ""
    while not (isinstance(value, ast.Call) and _is_leaf(value, function)):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if value.func.attr not in _MOVING | _CHANGING:
                return ""
            how, value = value.func.attr, value.func.value
        elif isinstance(value, ast.BinOp) and any(_is_leaf(each, function) for each in walk(value)):
            leaves = [each for each in (value.left, value.right) if _is_leaf(each, function)]
            if not leaves:
                return ""
            how, value = type(value.op).__name__.lower(), leaves[0]
        else:
            return ""
    return how


def _is_leaf(value: ast.AST, function: Function) -> bool:
    """Return whether an expression makes a leaf that requires gradients."""
    if not isinstance(value, ast.Call):
        return False
    name = resolve(dotted(value.func), function)
    told = next((each.value for each in value.keywords if each.arg == "requires_grad"), None)
    if name in _PARAMETERS:
        return not (isinstance(told, ast.Constant) and told.value is False)
    is_on = isinstance(told, ast.Constant) and told.value is True
    return is_on and name.startswith("torch.") and tail_of(name) in _NEW
