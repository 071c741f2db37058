"""Weights, constants and masks that float16 or bfloat16 cannot hold."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.domain.pluralize import number_of
from esper_agents.review.definitions import owner_of
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.training import backward_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

# The largest float16, and the smallest that does not round to 0.
_LARGEST, _SMALLEST = 65504.0, 2.0**-25
_FILLING = frozenset({"masked_fill", "masked_fill_", "full_like", "new_full", "fill_"})
_FLOORS = frozenset({"eps", "min", "min_value"})
_FLOAT32 = frozenset(
    {"LayerNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm2d", "RMSNorm"}
)
_OPTIMIZERS = "torch.optim."
_CREATING = frozenset({"torch.full", "torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn"})
_WIDE = pattern(r"float32|float64|\.(?:float|double)\(\)")


class HalfValues(FactQuery):
    """Weights in half precision under an optimizer, constants that overflow or vanish in float16, dtype conversions."""

    name = "half-values"
    topics = ("mixed precision",)
    claim = "values overflow or vanish in float16"
    category = Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader):\n"
        "    model.half()\n"
        "    optimizer = torch.optim.Adam(model.parameters())\n"
        "    for x in loader:\n"
        "        model(x).backward()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
    )
    good = bad.replace("    model.half()\n", "").replace(
        "        model(x).backward()\n",
        '        with torch.autocast("cuda", dtype=torch.bfloat16):\n'
        "            loss = model(x)\n        loss.backward()\n",
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about weights, constants and conversions."""
        texts = " ".join(file.text for file in index.files.values())
        has_bfloat16 = "bfloat16" in texts
        has_float16 = ".half()" in texts or "float16" in texts.replace("bfloat16", "") or "GradScaler" in texts
        is_float16 = has_float16 or not has_bfloat16
        for file in files:
            yield from self._weights(file)
            for call in file.calls:
                if is_float16 and call.tail in _FILLING:
                    yield from self._mask(file, call, index, is_sure=has_float16 and not has_bfloat16)
            if is_float16:
                yield from self._floors(file, index)

    def _weights(self, file: FileTables) -> Iterator[Fact]:
        """Yield models that an optimizer trains in half precision."""
        for function in file.functions:
            made = [each for each in function.calls if each.name.startswith(_OPTIMIZERS) and each.tail[:1].isupper()]
            given = [each.argument(0, "params") for each in made]
            trained = {dotted(each).removesuffix(".parameters()") for each in given if each is not None}
            for call in function.calls:
                path = call.receiver
                is_half = call.tail in {"half", "bfloat16"} and call.block is function.block
                if path not in trained or not is_half or not any(backward_calls(file)):
                    continue
                if call.tail == "half":
                    text = (
                        f"`{path}.half()` keeps float16 weights only: small updates round to 0, and Adam's eps does too"
                    )
                    yield self.problem(file, call.node, text, "remove it and use `torch.autocast`")
                else:
                    text = f"`{path}.bfloat16()` keeps 8 bits of each weight: updates below 1/256 of it are lost"
                    remedy = "keep float32 weights and use `torch.autocast`"
                    yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _mask(self, file: FileTables, call: Call, index: ProjectIndex, *, is_sure: bool) -> Iterator[Fact]:
        value = call.argument(1, "value") if call.tail != "fill_" else call.argument(0, "value")
        value = call.argument(1, "fill_value") if value is None else value
        if value is None:
            return
        origins = [origin.value for origin in index.origins(value, call.function, call.line)]
        numbers = [found for origin in origins if (found := _number(origin)) is not None]
        if len(numbers) != len(origins) or not numbers or _is_made_in_float32(call):
            return
        if any(abs(number) > _LARGEST and abs(number) != float("inf") for number in numbers):
            shown = ast.unparse(value)[:30]
            text = f"`{shown}` is too large for float16 (not for bfloat16): `{call.tail}` raises on float16 tensors"
            filled = call.receiver if call.receiver.isidentifier() and call.receiver != "torch" else "x"
            end = "min" if min(numbers) < 0 else "max"
            remedy = f"write `torch.finfo({filled}.dtype).{end}`"
            is_score = is_sure and _is_product(call, index)
            assumption = "" if is_score else "this runs in float16"
            yield self.problem(file, call.node, text, remedy, assumption=assumption)

    def _floors(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield constants that guard a division or a logarithm and are 0 in float16."""
        found: dict[str, list[ast.expr]] = {}
        for function in file.functions:
            owner = owner_of(function)
            # Constants of a constructor are computed before a model is converted.
            is_run = owner is not None and index.is_module(owner) and function.name != "__init__"
            nodes = _outside_choices(function.node) if is_run else ()
            for node, value in [(node, guard) for node in nodes if (guard := _guard_in(node)) is not None]:
                number = _number(value)
                if number is not None and not _is_in_float32(node, function) and 0 < number < _SMALLEST:
                    found.setdefault(ast.unparse(value), []).append(value)
        for shown, places in found.items():
            others = len({place.lineno for place in places}) - 1
            more = f" (and on {number_of(others, 'further line')})" if others else ""
            text = f"`{shown}`{more} rounds to 0 in float16, so it guards nothing if this runs in float16"
            remedy = "use `torch.finfo(x.dtype).eps`, or compute this in float32 by `.float()`"
            yield self.fact(file, min(places, key=lambda each: each.lineno), Assessment.SHOULD_CHECK, text, remedy)


def _outside_choices(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without the arms of `torch.where`: the condition keeps small values out of them."""
    queue = [node]
    for each in queue:
        yield each
        is_choice = isinstance(each, ast.Call) and dotted(each.func) == "torch.where"
        queue += each.args[:1] if is_choice and isinstance(each, ast.Call) else ast.iter_child_nodes(each)


def _is_made_in_float32(call: Call) -> bool:
    """Return whether what a call fills is a new tensor without a dtype: of the default one, whatever the model's is."""
    made = call.function.last_assignment(call.receiver, call.line)
    value = made.value if made is not None else None
    if not isinstance(value, ast.Call) or dotted(value.func) not in _CREATING:
        return False
    return not any(keyword.arg in {"dtype", None} for keyword in value.keywords)


def _is_in_float32(node: ast.AST, function: Function) -> bool:
    """Return whether what is guarded was made float32 beforehand: `x.sum(0, dtype=torch.float32)`, `x.float()`."""
    lasts = [
        found.value
        for each in walk(node)
        if isinstance(each, ast.Name) and (found := function.last_assignment(each.id, each.lineno)) is not None
    ]
    return any(_WIDE.search(ast.unparse(each)) for each in (node, *lasts))


def _number(node: ast.expr) -> float | None:
    """Return the number that an expression is; infinities by `float("inf")` too."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return -inner if inner is not None else None
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    is_float = isinstance(node, ast.Call) and dotted(node.func) == "float" and node.args
    text = node.args[0].value if is_float and isinstance(node.args[0], ast.Constant) else ""  # type: ignore[attr-defined]
    return float(text) if isinstance(text, str) and text.strip("+-") in {"inf", "infinity"} else None


def _guard_in(node: ast.AST) -> ast.expr | None:
    """Return the constant that a node adds to a divisor, or passes as a floor."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.BinOp):
        return node.right.right if isinstance(node.right.op, ast.Add) else None
    if not isinstance(node, ast.Call) or tail_of(dotted(node.func)) in _FLOAT32:
        return None
    tail = tail_of(dotted(node.func))
    if tail in {"clamp", "clamp_min", "clamp_"}:
        given = [keyword.value for keyword in node.keywords if keyword.arg in _FLOORS]
        return given[0] if given else node.args[-1] if node.args and tail == "clamp_min" else None
    if tail in {"log", "sqrt", "rsqrt"} and node.args and isinstance(node.args[0], ast.BinOp):
        return node.args[0].right if isinstance(node.args[0].op, ast.Add) else None
    return None


def _is_product(call: Call, index: ProjectIndex) -> bool:
    """Return whether what a mask fills comes from a matrix product, which autocast runs in float16."""
    held = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    texts = (
        [ast.unparse(origin.value) for origin in index.origins(held, call.function, call.line)]
        if held is not None
        else []
    )
    return any("matmul" in text or " @ " in text or "bmm(" in text or "einsum" in text for text in texts)
