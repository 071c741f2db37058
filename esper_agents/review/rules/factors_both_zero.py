"""ESP274: both factors of a product of parameters start at zero, so that neither ever gets a gradient."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, Class, FileTables

_ZEROS = frozenset({"torch.zeros", "torch.zeros_like"})
_TURNING = frozenset({"t", "T", "mT", "transpose", "permute", "to", "float", "type_as"})


class FactorsBothZero(FileRule):
    """A low-rank update whose two factors are both initialised to zero.

    ## Why it costs
    The gradient of each factor is a product with the other one. With both at zero, both gradients are zero in every
    step: the adapter never leaves zero, and only the rest of the model learns.

    ## When it is right
    Never for a product of two. One of the factors at zero is right: LoRA starts so, and the update starts at zero.

    ## Sources
    Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1: a random Gaussian for A, zero for B.
    """

    code, name = "ESP274", "factors-both-zero"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Adapter(nn.Module):\n"
        "    def __init__(self, width, rank):\n"
        "        super().__init__()\n"
        "        self.a = nn.Parameter(torch.zeros(rank, width))\n"
        "        self.b = nn.Parameter(torch.zeros(width, rank))\n"
        "\n"
        "    def forward(self, x):\n"
        "        return x @ self.a.t() @ self.b.t()\n"
    )
    good = bad.replace("torch.zeros(rank, width)", "0.01 * torch.randn(rank, width)")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the products of two parameters that start at zero."""
        if not file.imports_torch:
            return
        for cls in file.classes:
            zero = {path for path in cls.attributes if path.startswith("self.") and _starts_at_zero(path, cls)}
            if len(zero) < 2:  # noqa: PLR2004 - two factors
                continue
            for method in cls.methods.values():
                found = next((pair for node in walk(method.node) if (pair := _zero_factors(node, zero))), None)
                if found is not None:
                    at = cls.attributes[found[1]][0]
                    yield self.hit(
                        at.statement,
                        f"{found[0]!r} and {found[1]!r} both start at zero and are multiplied (line {found[2]}): "
                        "neither ever gets a gradient",
                        remedy=f"start {found[0]!r} with random numbers, such as `nn.init.kaiming_uniform_`",
                        basis=SEEN,
                    )
                    break


def _starts_at_zero(path: str, cls: Class) -> bool:
    """Return whether a parameter, or the weight of a layer without bias, starts at zero and nothing else sets it."""
    made = cls.attributes[path]
    value = made[0].value if len(made) == 1 else None
    if not isinstance(value, ast.Call):
        return False
    function = made[0].block.function
    name = resolve(dotted(value.func), function)
    is_layer = name in {"torch.nn.Linear", "torch.nn.Conv2d", "torch.nn.Conv1d"} and _is_without_bias(value)
    inner = value.args[0] if name == "torch.nn.Parameter" and value.args else None
    is_zero = isinstance(inner, ast.Call) and resolve(dotted(inner.func), function) in _ZEROS
    is_parameter = name == "torch.nn.Parameter"
    target = f"{path}.weight" if is_layer else path
    settings = [each for method in cls.methods.values() for each in method.calls if _sets(each, target)]
    if not (is_layer or is_parameter):
        return False
    return all(map(_sets_zero, settings)) and (is_zero or bool(settings))


def _is_without_bias(made: ast.Call) -> bool:
    return any(
        each.arg == "bias" and isinstance(each.value, ast.Constant) and each.value.value is False
        for each in made.keywords
    )


def _sets(call: Call, path: str) -> bool:
    """Return whether a call writes the numbers of a parameter."""
    is_method = call.receiver in {path, f"{path}.data"} and call.tail.endswith("_") and call.tail != "requires_grad_"
    is_given = any(dotted(each) in {path, f"{path}.data", path.removesuffix(".weight")} for each in call.node.args)
    return is_method or (is_given and (call.name.startswith("torch.nn.init.") or "init" in call.tail))


def _sets_zero(call: Call) -> bool:
    given = call.node.args[-1] if call.node.args else None
    is_number = isinstance(given, ast.Constant) and given.value == 0
    return call.tail in {"zeros_", "zero_"} or (call.tail in {"constant_", "fill_"} and is_number)


def _zero_factors(node: ast.AST, zero: set[str]) -> tuple[str, str, int] | None:
    """Return two parameters that start at zero and are factors of one product."""
    factors: list[str] = []
    match node:
        case ast.BinOp(op=ast.MatMult()):
            factors = [_root(each) for each in _factors(node)]
        case ast.Call(func=ast.Attribute() as outer, args=[ast.Call(func=ast.Attribute() as inner), *rest]):
            factors = [dotted(inner), dotted(outer)]
            if tail_of(dotted(outer)) in {"linear", "matmul", "mm"} and rest:
                given = node.args[0].args[1:2] if isinstance(node.args[0], ast.Call) else []
                factors = [_root(each) for each in (*given, rest[0])]
        case ast.Call(func=ast.Attribute(attr="matmul" | "mm"), args=[left, right]):
            factors = [_root(left), _root(right)]
        case _:
            return None
    found = [each for each in dict.fromkeys(factors) if each in zero]
    return (found[0], found[1], node.lineno) if len(found) > 1 else None


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield node


def _root(node: ast.expr) -> str:
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _TURNING:
                node = inner
            case ast.Attribute(value=inner, attr="T" | "mT"):
                node = inner
            case _:
                return dotted(node) if isinstance(node, ast.Attribute) else ""
