"""ESP113: fractions are added in place to a tensor of whole numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, Rule, RuntimeExpectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Class, FileTables, Function

_WHOLE = frozenset(
    {"torch.long", "torch.int64", "torch.int32", "torch.int", "torch.int16", "torch.short", "torch.uint8"}
)
_MAKING = frozenset({"zeros", "ones", "full", "empty", "zeros_like", "tensor", "new_zeros", "as_tensor"})
# Functions and methods whose results are fractions whatever they are given, or need fractions.
_FRACTIONS = frozenset(
    {"mean", "softmax", "sigmoid", "log_softmax", "exp", "log", "sqrt", "std", "var", "norm", "float", "double", "half"}
    | {"cosine_similarity", "cross_entropy", "mse_loss", "l1_loss", "bce_loss", "nll_loss", "log_prob", "entropy"}
    | {
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "rand",
        "randn",
        "tanh",
        "logsumexp",
        "smooth_l1_loss",
    }
)
_KEEPING = frozenset(
    {"sum", "max", "min", "detach", "cpu", "to", "item", "clone", "view", "reshape", "squeeze", "unsqueeze", "abs"}
    | {"clamp", "flatten", "amax", "amin", "cumsum", "values", "mean", "index_select", "gather"}
)
_STEPS = 4


class FloatIntoIntegers(Rule):
    """A tensor of whole numbers to which fractions are added or assigned.

    ## Why it costs
    `counts += probabilities` raises: "result type Float can't be cast to the desired output type Long". An assignment
    to its elements, `counts[i] = loss`, does not raise and cuts the fraction off: probabilities become 0.

    ## When it is right
    The tensor counts, and what is added is a count. Reported only if the tensor is made with a whole-number `dtype`,
    or from whole numbers, and what is added is surely a fraction: a mean, a softmax, a loss.

    ## Sources
    PyTorch documentation, "Tensor Attributes", on type promotion: in-place operations cannot change the dtype.
    """

    code, name = "ESP113", "float-into-integers"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    shown = RuntimeExpectation.RAISES
    bad = (
        "import torch\n"
        "\n"
        "confidence = torch.zeros(10, dtype=torch.long)\n"
        "for logits, y in batches:\n"
        "    confidence += logits.softmax(-1).sum(0)\n"
    )
    good = bad.replace(", dtype=torch.long", "")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:  # noqa: ARG002 - one file says it all
        """Yield the places that put fractions into tensors of whole numbers."""
        if not file.imports_torch:
            return
        for function in file.functions:
            for path, assignments in function.assignments.items():
                base = path.removesuffix("[]")
                for each in assignments:
                    is_element = path.endswith("[]")
                    if not (each.is_augmented or is_element) or each.is_unpacked:
                        continue
                    made = _whole_numbers(base, function, each.line)
                    if made is None or not _is_fraction(each.value, function, each.line):
                        continue
                    yield self._found(each, base, made)

    def _found(self, found: Assignment, base: str, made: ast.expr) -> RuleMatch:
        raises = found.is_augmented
        what = "which raises" if raises else "which cuts the fraction off"
        return self.hit(
            found.statement,
            f"`{base}` holds whole numbers (line {made.lineno}), and this puts fractions into it, {what}",
            remedy=f"make `{base}` with `dtype=torch.float32`",
            confidence=Confidence.HIGH,
            basis=SEEN,
            severity=None if raises else Severity.WARNING,
        )


def _whole_numbers(path: str, function: Function, line: int) -> ast.expr | None:
    """Return what makes a path a tensor of whole numbers, if all that binds it does."""
    if path.startswith("self."):
        return _buffer(path, function.owner) if function.owner is not None else None
    bound = [each for each in function.assignments.get(path, ()) if not each.is_augmented and each.line < line]
    values = [each.value for each in bound]
    if not values or any(each.is_unpacked for each in bound) or not all(_is_whole(each, function) for each in values):
        return None
    return values[-1]


def _buffer(path: str, owner: Class) -> ast.expr | None:
    """Return what makes an attribute or buffer of an object a tensor of whole numbers, in all its methods."""
    values = [(each.value, each.block.function) for each in owner.attributes.get(path, ()) if not each.is_augmented]
    name = path.removeprefix("self.")
    for method in owner.methods.values():
        for call in method.calls:
            first = call.argument(0, "name")
            value = call.argument(1, "tensor")
            is_named = call.tail == "register_buffer" and isinstance(first, ast.Constant) and first.value == name
            if is_named and value is not None:
                values.append((value, method))
    if not values or not all(_is_whole(value, function) for value, function in values):
        return None
    return values[0][0]


def _is_whole(value: ast.expr, function: Function) -> bool:
    """Return whether an expression makes a tensor of whole numbers."""
    func = value.func if isinstance(value, ast.Call) else None
    if not isinstance(value, ast.Call) or func is None:
        return False
    if isinstance(func, ast.Attribute) and func.attr in {"long", "int"} and not value.args:
        return True
    if (
        isinstance(func, ast.Attribute)
        and func.attr in {"to", "cuda", "cpu", "clone"}
        and isinstance(func.value, ast.Call)
    ):
        given = [resolve(dotted(each), function) for each in [*value.args, *(one.value for one in value.keywords)]]
        return not any(each.startswith("torch.") for each in given) and _is_whole(func.value, function)
    name = resolve(dotted(func), function)
    dtype = next((each.value for each in value.keywords if each.arg == "dtype"), None)
    if dtype is not None:
        return name.rpartition(".")[2] in _MAKING and resolve(dotted(dtype), function) in _WHOLE
    return name == "torch.tensor" and bool(value.args) and _has_whole_numbers(value.args[0])


def _has_whole_numbers(value: ast.expr) -> bool:
    """Return whether an expression is a whole number, or a list of nothing else."""
    if isinstance(value, ast.List):
        return bool(value.elts) and all(_has_whole_numbers(each) for each in value.elts)
    return isinstance(value, ast.Constant) and type(value.value) is int


def _is_fraction(value: ast.expr, function: Function, line: int, steps: int = _STEPS) -> bool:
    """Return whether a value is surely a tensor or a number with a fraction."""
    found = False
    match value:
        case ast.Constant(value=number):
            found = isinstance(number, float) and not number.is_integer()
        case ast.BinOp(op=op, left=left, right=right):
            parts = () if isinstance(op, ast.FloorDiv | ast.Mod) else (left, right)
            found = isinstance(op, ast.Div) or any(_is_fraction(each, function, line, steps) for each in parts)
        case ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
            found = _is_fraction(inner, function, line, steps)
        case ast.Name(id=name) if steps:
            found = _is_bound_to_fraction(name, function, line, steps - 1)
        case ast.Call():
            found = _call_is_fraction(value, function, line, steps)
        case _:
            pass
    return found


def _is_bound_to_fraction(name: str, function: Function, line: int, steps: int) -> bool:
    made = function.last_assignment(name, line)
    if made is None or made.is_augmented or isinstance(made.statement, ast.For):
        return False
    if made.is_unpacked and isinstance(made.value, ast.Call):
        # `confidence, prediction = probabilities.max(1)`: the first are the values.
        target = getattr(made.statement, "targets", [None])[0]
        first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
        of_values = dotted(made.value.func).rpartition(".")[2] in {"max", "min", "topk", "sort"}
        if first is None or dotted(first) != name or not of_values:
            return False
    return _is_fraction(made.value, function, made.line, steps)


def _call_is_fraction(value: ast.Call, function: Function, line: int, steps: int) -> bool:
    name = resolve(dotted(value.func), function)
    tail = name.rpartition(".")[2] or (value.func.attr if isinstance(value.func, ast.Attribute) else "")
    if isinstance(value.func, ast.Attribute):
        tail = value.func.attr
    if tail in {"long", "int", "round", "floor", "argmax", "argmin", "bincount", "histc", "numel", "size"}:
        return False
    if any(each.arg == "dtype" for each in value.keywords):
        return False
    of_torch = name.startswith("torch.")
    if tail in _FRACTIONS and (of_torch or isinstance(value.func, ast.Attribute)):
        return True
    subject: ast.expr | None = None
    if tail in {*_KEEPING, "topk", "sort"}:
        is_function = of_torch and bool(value.args)
        subject = value.args[0] if is_function else getattr(value.func, "value", None)
    if tail in {"to", "type"} and any("long" in ast.unparse(each) or "int" in ast.unparse(each) for each in value.args):
        return False
    return subject is not None and _is_fraction(subject, function, line, steps)
