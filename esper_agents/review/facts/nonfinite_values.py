"""Operations that can make NaN or infinite values, and what guards them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.hot import hot_around
from esper_agents.review.magnitudes import operand
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.training import is_optimizer_step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_LIMITING = frozenset({"clamp", "clamp_", "clamp_min", "clamp_min_", "clip", "maximum", "softplus", "nan_to_num"})
_CUTTING = frozenset({"clamp", "clamp_", "clamp_min", "clamp_min_", "clip"})
# What keeps the sign and the floor of a value.
_KEEPING = frozenset(
    {"sum", "mean", "squeeze", "unsqueeze", "view", "reshape", "float", "to", "expand", "flatten", "amin"}
)
_NONNEGATIVE = frozenset(
    {"abs", "square", "norm", "relu", "softplus", "sigmoid", "exp", "cdist", "vector_norm", "sqrt"}
)
_BOUNDING = frozenset(
    {"clamp", "clamp_", "clamp_max", "clip", "tanh", "sigmoid", "logsigmoid", "log_softmax", "minimum"}
)
_ADAM = ("torch.optim.Adam", "torch.optim.AdamW", "torch.optim.NAdam", "torch.optim.RAdam", "torch.optim.Adamax")
_HIGH_RATE, _SMALLEST_HALF, _SMALL = 0.05, 6e-8, 1e-2
_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_gradients", "clip_grad_norm")
_MOST_FINE, _MOST_OPEN = 8, 6
_FEW_FILES = 2


class NonfiniteValues(FactQuery):
    """Logarithms, roots, quotients, exponentials and masks that can make NaN, and the guarded ones."""

    name = "nonfinite-values"
    topics = ("NaN or Inf",)
    claim = "an operation can leave the range where it is finite"
    refutes = False
    category = Category.SILENT_CORRECTNESS
    rules = ("ESP210", "ESP211", "ESP212", "ESP213", "ESP503", "ESP217")
    unseen = "values of inputs and weights: only a run tells which operation meets a bad value first"
    bad = "import torch\n\n\ndef angle(a, b):\n    return torch.where(a > 0, torch.sqrt(a), b) + torch.acos(a)\n"
    good = "import torch\n\n\ndef entropy(p):\n    return -(p * torch.log(p.clamp_min(1e-6))).sum()\n"

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the candidates by kind of operation."""
        for file in files:
            if file.imports_torch:
                yield from self._ranges(file, index, is_narrow=bool(subject.symbols) or len(files) <= _FEW_FILES)
                yield from self._exponentials(file, index)
                yield from self._where(file, index)
                yield from self._masks(file, index)
                yield from self._half(file, index)
            yield from self._optimisation(file, index)

    def _ranges(self, file: FileTables, index: ProjectIndex, *, is_narrow: bool) -> Iterator[Fact]:
        """Yield functions with a limited range; the guarded ones as fine; of named definitions every unguarded one."""
        fine = 0
        for call in file.calls_ending(
            "log", "log2", "log10", "sqrt", "rsqrt", "acos", "asin", "acosh", "atanh", "logit"
        ):
            value = operand(call.node, call.function) if _is_of_torch(call) else None
            if value is None or _is_number(value):
                continue
            guard = _guard(value, call, index) or _guard_in_place(value, call)
            if guard and fine < _MOST_FINE:
                fine += 1
                yield self.fact(file, call.node, Assessment.FINE, f"`{_short(call.node)}` is guarded by `{guard}`")
            elif not guard and call.tail == "sqrt" and _cut_at_zero(value, call, index):
                text = (
                    f"`{_short(call.node)}`: where the argument is cut off at 0, the gradient of the root is infinite "
                    "and that of the cut is 0: their product is NaN, although the value is finite"
                )
                remedy = "`clamp(min=eps)` with a small `eps`, or mask the zeros before the root"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
            elif not guard and call.tail in {"acos", "asin"}:
                is_clamped = any(each in ast.unparse(value) for each in ("clamp(", "clip("))
                beyond = "" if is_clamped else "NaN beyond 1 by rounding, and "
                text = f"`{_short(call.node)}`: {beyond}an infinite gradient at 1 and -1"
                remedy = f"`eps = torch.finfo(x.dtype).eps`, then `{call.tail}(x.clamp(-1 + eps, 1 - eps))`"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
            elif not guard and is_narrow and call.tail in {"log", "log2", "log10", "sqrt"}:
                is_floored = isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _NONNEGATIVE
                at_zero = "infinite in its gradient at 0" if call.tail == "sqrt" else "minus infinity at 0"
                below = "" if is_floored else " and NaN below"
                text = f"`{_short(call.node)}` is {at_zero}{below}; this line does not keep the argument above 0"
                yield self.fact(file, call.node, Assessment.OPEN, text)
            elif not guard and call.tail in {"acosh", "atanh", "logit", "rsqrt"}:
                text = f"`{_short(call.node)}` is infinite or NaN at the edge of its range, and nothing here guards it"
                yield self.fact(file, call.node, Assessment.OPEN, text)

    def _exponentials(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        shown = 0
        for call in file.calls_ending("exp"):
            value = operand(call.node, call.function) if _is_of_torch(call) else None
            if value is None or _is_number(value) or shown >= _MOST_OPEN or "arange" in ast.unparse(value):
                continue
            bound = _bound(value, call, index)
            if bound:
                yield self.fact(file, call.node, Assessment.FINE, f"`{_short(call.node)}` is bounded: `{bound}`")
            elif hot_around(call.block, index) or call.function.name == "forward" or "loss" in call.function.name:
                shown += 1
                text = f"`{_short(call.node)}` is infinite above 88 in float32 and above 11 in float16"
                yield self.fact(file, call.node, Assessment.OPEN, text)

    def _where(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield `where` over a value that is NaN in the branch not taken: its gradient is NaN all the same."""
        for call in file.calls_ending("where"):
            if call.name != "torch.where" or len(call.node.args) != 3:  # noqa: PLR2004 - the arguments of where
                continue
            condition, *branches = call.node.args
            for branch in branches:
                found = next((each for each in walk(branch) if _is_risky(each, call, index)), None)
                if found is not None and _reads_same(condition, found):
                    text = f"`where` does not stop the gradient of `{_short(found)}`: NaN where the branch is not taken"
                    remedy = "make the input safe first: `safe = torch.where(condition, x, 1.0)`, and use `safe` inside"
                    yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
                    break

    def _masks(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield masks of minus infinity before a softmax."""
        for call in file.calls_ending("masked_fill", "masked_fill_"):
            value, mask = call.argument(1, "value"), call.argument(0, "mask")
            softmaxed = any(
                each.tail in {"softmax", "log_softmax"} and each.line >= call.line for each in call.function.calls
            )
            if value is None or mask is None or not softmaxed or "inf" not in ast.unparse(value):
                continue
            inner = mask
            while isinstance(inner, ast.Call | ast.Subscript):
                inner = inner.value if isinstance(inner, ast.Subscript) else _receiver(inner)
            made = [ast.unparse(origin.value) for origin in index.origins(inner, call.function, call.line)]
            if any(name in each for name in ("triu", "tril", "eye") for each in (*made, ast.unparse(mask))):
                text = "the mask is triangular or a diagonal: no row is empty before the softmax"
                yield self.fact(file, call.node, Assessment.FINE, text)
            else:
                text = f"a row that `{_short(mask)}` empties is all `-inf`, and the softmax of it is NaN"
                remedy = "fill with `torch.finfo(scores.dtype).min`, or keep one place of each row"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _half(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield float16 without a scaler, and an epsilon that is 0 in float16."""
        is_half = any(each in file.text for each in ("float16", ".half()"))
        scaled = any(index.calls_ending("GradScaler", "Accelerator", "Trainer", "Fabric", "initialize"))
        for call in file.calls_ending("autocast"):
            kind = call.argument(-1, "dtype")
            is_trained = any(each.tail in {"backward", "scale"} for each in call.function.calls)
            if kind is not None and dotted(kind) in {"torch.float16", "torch.half"} and is_trained and not scaled:
                text = "autocast to float16 without a `GradScaler`: small gradients become 0 and large ones infinite"
                yield self.fact(
                    file, call.node, Assessment.SHOULD_CHECK, text, "use `torch.bfloat16`, or `torch.amp.GradScaler()`"
                )
        for node in walk(file.tree) if is_half else ():
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
                number = node.right.value
                if isinstance(number, float) and 0 < number < _SMALLEST_HALF:
                    text = f"`{_short(node)}`: {number} is 0 in float16, which this file uses"
                    yield self.fact(file, node, Assessment.OPEN, text)

    def _optimisation(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield high learning rates, and steps whose gradients nothing clips."""
        for call in file.calls_to(*_ADAM):
            rate = call.argument(1, "lr")
            for origin in index.origins(rate, call.function, call.line) if rate is not None else ():
                number = origin.value.value if isinstance(origin.value, ast.Constant) else None
                if isinstance(number, float) and number >= _HIGH_RATE:
                    text = f"`{tail_of(call.name)}` with `lr={number}`: each weight moves by up to {number} a step"
                    yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, "start with `lr=1e-3` or lower")
        clips = file.calls_ending(*_CLIPPING)
        for call in clips[:2]:
            yield self.fact(file, call.node, Assessment.FINE, f"`{_short(call.node)}` bounds the gradients of the step")
        if (
            clips
            or any(index.calls_ending(*_CLIPPING))
            or any("clip_grad" in each.text for each in index.files.values())
        ):
            return
        steps = [
            each
            for each in file.calls_ending("step")
            if hot_around(each.block, index) and is_optimizer_step(each, index)
        ]
        for call in steps[:1]:
            text = f"nothing bounds the gradients before `{call.path}()`: one bad batch makes all weights NaN"
            remedy = "`torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)` before it"
            yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)


def _receiver(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _is_of_torch(call: Call) -> bool:
    name = call.name
    if name.startswith(("math.", "numpy.", "np.", "logging.", "wandb.", "jax.", "scipy.")):
        return False
    if call.tail == "log" and not name.startswith("torch.") and (call.node.args or call.node.keywords):
        return False
    return name.startswith("torch.") or bool(
        call.receiver and not call.node.args and call.receiver not in {"self", "super()"}
    )


def _is_number(value: ast.expr) -> bool:
    return not any(isinstance(each, ast.Name | ast.Attribute) for each in walk(value))


def _origins(value: ast.expr, call: Call, index: ProjectIndex) -> tuple[Origin, ...]:
    found = index.origins(value, call.function, call.line)
    return tuple(each for each in found if each.function is call.function)


def _guard(value: ast.expr, call: Call, index: ProjectIndex) -> str:
    """Return what keeps a value above 0, as written; empty if nothing is seen to."""
    for each in (value, *(origin.value for origin in _origins(value, call, index))):
        found = each
        while isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute) and found.func.attr in _KEEPING:
            found = found.func.value
        if isinstance(found, ast.Call) and tail_of(dotted(found.func)) in _LIMITING and not _is_at_edge(found):
            return _short(found)
        match found:
            case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_epsilon(left) or _is_epsilon(right):
                return _short(found)
            case ast.Call(func=ast.Attribute(attr="add" | "add_"), args=[added, *_]) if _is_epsilon(added):
                return _short(found)
    return ""


def _cut_at_zero(value: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether a value is cut off at 0 exactly."""
    for each in (value, *(origin.value for origin in _origins(value, call, index))):
        is_cut = isinstance(each, ast.Call) and tail_of(dotted(each.func)) in _CUTTING
        if is_cut and isinstance(each, ast.Call) and _is_at_edge(each):
            return True
    return False


def _guard_in_place(value: ast.expr, call: Call) -> str:
    """Return the statement above a call that adds a small number to its operand, or cuts it off, in place."""
    path, function = dotted(value), call.function
    if not path:
        return ""
    last = function.last_assignment(path, call.line)
    if last is not None and last.is_augmented and isinstance(getattr(last.statement, "op", None), ast.Add):
        return _short(last.statement) if _is_epsilon(last.value) else ""
    # `_foreach_add_(divisors, eps)` guards what a loop draws from `divisors`.
    loops = [each.node for each in call.block.chain() if isinstance(each.node, ast.For) and path in each.targets]
    subjects = {path} | {dotted(each) for loop in loops for each in walk(loop.iter) if isinstance(each, ast.Name)}
    since = last.line if last is not None and not loops else 0
    for each in function.calls:
        kind, given = each.tail.removeprefix("_foreach_"), each.node.args
        subject = each.receiver
        if kind != each.tail:
            subject, given = (dotted(given[0]) if given else ""), given[1:]
        is_added = kind == "add_" and any(map(_is_epsilon, given))
        is_cut = kind.endswith("_") and kind in _LIMITING and not _is_at_edge(each.node)
        if subject in subjects and (is_added or is_cut) and since <= each.line <= call.line:
            return _short(each.node)
    return ""


def _is_epsilon(side: ast.expr) -> bool:
    if isinstance(side, ast.Constant):
        return isinstance(side.value, float) and 0 < side.value <= _SMALL
    if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Constant):
        return "eps" in str(side.slice.value)
    return isinstance(side, ast.Name | ast.Attribute) and "eps" in dotted(side).lower()


def _is_at_edge(limiting: ast.Call) -> bool:
    """Return whether a limit is 0 or 1 itself, where logarithms and inverse cosines are infinite or steep."""
    bounds = [*limiting.args, *(keyword.value for keyword in limiting.keywords)]
    return any(isinstance(bound, ast.Constant) and bound.value in {0, 1} for bound in bounds)


def _bound(value: ast.expr, call: Call, index: ProjectIndex) -> str:
    """Return what bounds the argument of an exponential from above."""
    for each in (value, *(origin.value for origin in _origins(value, call, index))):
        if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub) and _is_nonnegative(each.operand):
            return _short(each)
        if isinstance(each, ast.Call) and tail_of(dotted(each.func)) in _BOUNDING:
            return _short(each)
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) and "max" in ast.unparse(each.right):
            return _short(each)
    return ""


def _is_nonnegative(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=func):
            return tail_of(dotted(func)) in _NONNEGATIVE
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
            return True
        case ast.BinOp(left=left, op=ast.Div() | ast.Mult()):
            return _is_nonnegative(left)
        case _:
            return False


def _is_risky(node: ast.AST, call: Call, index: ProjectIndex) -> bool:
    """Return whether an expression is a root, logarithm or quotient of a value that nothing guards."""
    value = None
    if isinstance(node, ast.Call) and tail_of(dotted(node.func)) in {"sqrt", "log", "acos", "asin", "rsqrt"}:
        value = operand(node, call.function)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        value = node.right
    is_open = value is not None and not _is_number(value)
    return is_open and value is not None and not (_guard(value, call, index) or _guard_in_place(value, call))


def _reads_same(condition: ast.expr, risky: ast.AST) -> bool:
    """Return whether a condition tests a name that a risky expression reads."""
    tested = {dotted(each) for each in walk(condition) if isinstance(each, ast.Name | ast.Attribute)} - {"torch"}
    inner = risky.right if isinstance(risky, ast.BinOp) else risky
    read = {dotted(each) for each in walk(inner) if isinstance(each, ast.Name | ast.Attribute)} - {"torch"}
    return bool(tested & read)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).replace("`", "'").split())
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - one clause of a line
