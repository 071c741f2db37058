"""ESP508: Muon is handed parameters that are no matrices."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import tests_around
from esper_agents.review.index import Origin, resolve
from esper_agents.review.names import dotted
from esper_agents.review.parameters import dimensions, is_layer_without_matrix
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, Rule, RuntimeExpectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.parameters import Dimensions
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_NAMES = ("torch.optim.Muon", "torch.optim._muon.Muon")
_ALL = frozenset({"parameters", "named_parameters"})
_DIMENSIONS = pattern(r"\b(?:ndim|dim|shape|size|ndimension)\b")
_TWO_OR_MORE = pattern(r"(?:ndim|dim\(\)|ndimension\(\))\s*(?:>=\s*2|>\s*1|!=\s*1)|len\([\w.]+\)\s*(?:>=\s*2|>\s*1)")
_STEPS = 4


class MuonOnNonMatrix(Rule):
    """A `torch.optim.Muon` over all parameters of a model, biases, norms and convolutions among them.

    ## Why it costs
    Muon orthogonalises matrices: it raises a ValueError for a parameter that does not have exactly two dimensions.

    ## When it is right
    All parameters of the model are matrices, or others were left out: where a condition on the number of dimensions
    picks them, nothing is reported, unless it lets convolutions through.

    ## Sources
    PyTorch documentation and source of `torch.optim.Muon` (torch 2.9 and later): "Muon only supports 2D parameters".
    """

    code, name = "ESP508", "muon-on-non-matrix"
    severity, category = Severity.CRITICAL, Category.COMPILE
    shown = RuntimeExpectation.RAISES
    bad = (
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
        "        return self.layer(x)\n"
        "\n"
        "\n"
        "net = Net()\n"
        "optimizer = torch.optim.Muon(net.parameters(), lr=0.02)\n"
    )
    good = bad.replace(
        "optimizer = torch.optim.Muon(net.parameters(), lr=0.02)\n",
        "matrices = [p for p in net.parameters() if p.ndim == 2]\n"
        "others = [p for p in net.parameters() if p.ndim != 2]\n"
        "optimizers = [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(others, lr=0.001)]\n",
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the optimizers that are handed more than matrices."""
        for call in file.calls_to(*_NAMES):
            handed = call.argument(0, "params")
            for origin in index.origins(handed, call.function, call.line) if handed is not None else ():
                hit = self._judged(call, origin, index)
                if hit is not None:
                    yield hit
                    break

    def _judged(self, call: Call, origin: Origin, index: ProjectIndex) -> RuleMatch | None:
        odd = next(_odd_ones(origin, index), None)
        if odd is not None:
            return self.hit(
                call.node,
                f"`{ast.unparse(odd)}` is no matrix: Muon raises a ValueError for it",
                remedy="hand it to `torch.optim.AdamW`",
                basis=FOLLOWED,
            )
        picked = _picked(origin, index)
        if picked is None:
            return None
        model, condition = picked
        owner = index.class_of(model, origin.function, origin.line)
        known = dimensions(owner, index) if owner is not None else None
        what = _what_is_wrong(known, condition)
        if not what:
            return None
        return self.hit(
            call.node,
            f"`{ast.unparse(model)}` {what}: Muon raises a ValueError for what is no matrix",
            remedy="hand it `[p for p in model.parameters() if p.ndim == 2]`, and the others to `torch.optim.AdamW`",
            severity=None if known is not None else Severity.WARNING,
            confidence=Confidence.HIGH if known is not None else Confidence.MODERATE,
            basis=FOLLOWED if known is not None else f"{INFERRED}: nearly every model has biases or norms",
        )


def _odd_ones(origin: Origin, index: ProjectIndex) -> Iterator[ast.Attribute]:
    """Yield the parameters of a written list that surely are no matrices: biases, weights of norms and kernels."""
    for each in origin.value.elts if isinstance(origin.value, ast.List | ast.Tuple) else ():
        if isinstance(each, ast.Attribute) and each.attr in {"weight", "bias"}:
            made = index.origins(each.value, origin.function, origin.line)
            layers = [resolve(dotted(one.value), one.function).removesuffix("()") for one in made]
            if layers and all(is_layer_without_matrix(layer, each.attr) for layer in layers):
                yield each


def _what_is_wrong(known: Dimensions | None, condition: str) -> str:
    """Return why the parameters that a condition picks are not all matrices; empty where they may be."""
    if _DIMENSIONS.search(condition):
        lets_kernels = _TWO_OR_MORE.search(condition) is not None and known is not None and known.has_kernels
        return "has convolutions, which the condition lets through" if lets_kernels else ""
    if condition and not _is_neutral(condition):
        return _left_by_name(known, condition)
    if known is None:
        return "hands over all its parameters, biases and norms among them"
    if known.has_vectors:
        return "has parameters of one dimension"
    return "has convolutions" if known.has_kernels else ""


def _left_by_name(known: Dimensions | None, condition: str) -> str:
    """Return what is left where a condition leaves out biases by their name, and nothing else."""
    if set(re.findall(r"[\"'](\w*)[\"']", condition)) - {"bias"} or "bias" not in condition or " and " in condition:
        return ""
    if known is None or known.has_norms:
        return "has norms, too, whose weights have one dimension"
    return "has convolutions" if known.has_kernels else ""


def _is_neutral(condition: str) -> bool:
    """Return whether a condition asks for `requires_grad` alone, which says nothing of dimensions."""
    return re.fullmatch(r"\w+\.requires_grad", condition) is not None


def _picked(origin: Origin, index: ProjectIndex, steps: int = _STEPS) -> tuple[ast.expr, str] | None:
    """Return the model whose parameters an expression picks, and by what condition; None where it does nothing so."""
    inner: ast.expr | None = None
    condition = ""
    match origin.value:
        case ast.Call(func=ast.Attribute(value=model, attr=name)) if name in _ALL:
            return model, ""
        case ast.List(elts=[]):
            return _gathered(origin, index, steps)
        case ast.Call(func=function, args=[handed]) if dotted(function) in {"list", "tuple", "iter"}:
            inner = handed
        case ast.Call(func=ast.Name(id="filter"), args=[ast.Lambda(body=test), handed]):
            inner, condition = handed, ast.unparse(test)
        case ast.ListComp(generators=[each]) | ast.GeneratorExp(generators=[each]):
            inner, condition = each.iter, " and ".join(ast.unparse(test) for test in each.ifs)
        case ast.List(elts=[ast.Dict(), *_] as groups):
            return next(filter(None, (_of_group(group, origin, index, steps) for group in groups)), None)
        case _:
            pass
    found = _further(inner, origin, index, steps) if inner is not None else None
    return (found[0], condition or found[1]) if found is not None else None


def _of_group(group: ast.expr, origin: Origin, index: ProjectIndex, steps: int) -> tuple[ast.expr, str] | None:
    """Return the same for one of several groups of parameters, where all of a module's are handed over."""
    entries = zip(group.keys, group.values, strict=True) if isinstance(group, ast.Dict) else ()
    inner = next((value for key, value in entries if _is_params(key)), None)
    return _further(inner, origin, index, steps) if inner is not None else None


def _gathered(origin: Origin, index: ProjectIndex, steps: int) -> tuple[ast.expr, str] | None:
    """Return the same for a list that is filled in a loop over all parameters."""
    function = origin.function
    names = {
        path for path, made in function.assignments.items() if any(_holds(each.value, origin.value) for each in made)
    }
    for call in function.calls:
        loop = call.block.loop
        if call.tail != "append" or loop is None or not isinstance(loop.node, ast.For):
            continue
        tests = [ast.unparse(test) for test in tests_around(call.block, loop)]
        target = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
        if isinstance(target, ast.IfExp) and {dotted(target.body), dotted(target.orelse)} & names:
            tests.append(ast.unparse(target.test))
        elif call.receiver not in names:
            continue
        found = _further(loop.node.iter, origin, index, steps)
        return (found[0], " and ".join(tests)) if found is not None and not found[1] else None
    return None


def _holds(value: ast.expr, part: ast.expr) -> bool:
    return value is part or (isinstance(value, ast.Tuple) and any(elt is part for elt in value.elts))


def _further(value: ast.expr, origin: Origin, index: ProjectIndex, steps: int) -> tuple[ast.expr, str] | None:
    if not steps:
        return None
    found = index.origins(value, origin.function, origin.line)
    return (
        _picked(Origin(found[0].value, found[0].function, found[0].line), index, steps - 1) if len(found) == 1 else None
    )


def _is_params(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "params"
