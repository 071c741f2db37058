"""ESP507: a custom operator returns its input or a view of it, or changes it without saying so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, root_of
from esper_agents.review.operators import implementations
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_OPERATORS = frozenset({"torch.library.custom_op()", "torch.library.triton_op()"})
# What gives back the tensor itself or one that shares its memory.
_VIEWS = frozenset(
    {"view", "view_as", "t", "transpose", "permute", "squeeze", "unsqueeze", "detach", "expand", "expand_as", "narrow"}
    | {"select", "swapaxes", "swapdims", "movedim", "unfold", "diagonal", "as_strided", "T", "mT", "H", "mH", "data"}
    | {"real", "imag", "view_as_real", "view_as_complex", "requires_grad_"}
)
# What gives back the tensor itself where nothing has to be done, and a copy otherwise.
_PERHAPS = frozenset(
    {"contiguous", "reshape", "reshape_as", "flatten", "to", "float", "half", "double", "bfloat16", "cuda", "cpu"}
    | {"type", "type_as", "ravel"}
)
_IN_PLACE_ASIDE = frozenset({"requires_grad_", "retain_grad_", "share_memory_", "rename_"})
_TENSOR = pattern(r"(?:Optional\[)?(?:\w+\.)*Tensor\]?(?: ?\| ?None)?")
_STEPS = 6


class OperatorOutputAliasesInput(FileRule):
    """A custom operator that returns its input or a view of it, or that changes an input it does not name.

    ## Why it costs
    The compiler takes an operator at its word: outputs are new memory, and inputs stay as they are unless
    `mutates_args` names them. Torch 2.6 and later refuse an output that shares memory with an input: the call raises a
    RuntimeError. A change that is not named is not seen by autograd or by the compiler, which may then use the old
    value.

    ## When it is right
    Never, for `torch.library.custom_op` and `torch.library.triton_op`. An operator defined by a schema may alias what
    the schema says (`Tensor(a)`): then it is not reported, and otherwise it is a warning.
    `.contiguous()`, `.reshape(...)` and `.to(...)`
    return the input itself only where nothing has to be done: that is a warning.

    ## Sources
    PyTorch documentation of `torch.library.custom_op`, on `mutates_args` and on what may be returned; tried with torch
    2.13.
    """

    code, name = "ESP507", "operator-output-aliases-input"
    severity, category = Severity.CRITICAL, Category.COMPILE
    bad = (
        "import torch\n"
        "from torch import Tensor\n"
        "\n"
        "\n"
        '@torch.library.custom_op("mine::rectify", mutates_args=())\n'
        "def rectify(x: Tensor, slope: float) -> Tensor:\n"
        "    if slope == 1.0:\n"
        "        return x\n"
        "    return torch.where(x > 0, x, x * slope)\n"
    )
    good = bad.replace("return x\n", "return x.clone()\n")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the returns and the changes that an operator must not have."""
        if not any("torch.library" in each for each in file.imports.values()) and "torch.library" not in file.text:
            return
        operators = {each.name: each for each in file.functions if _OPERATORS & set(each.decorators)}
        for function in file.functions:
            operator = _operator_of(function, operators)
            if operator is not None:
                yield from self._returned(function)
                yield from self._changed(function, operator)
        for call in file.calls_to("torch.library.custom_op", "torch.library.triton_op"):
            written = call.argument(1, "fn")
            named = dotted(written) if written is not None else ""
            yield from (hit for each in file.functions if each.name == named for hit in self._returned(each))
        for function in implementations(file):
            yield from self._returned(function, is_checked=False)

    def _returned(self, function: Function, *, is_checked: bool = True) -> Iterator[RuleMatch]:
        for statement, _ in function.returns:
            for value in _outputs(statement.value):
                is_sure, parameter = _alias(value, function, statement.lineno)
                if parameter:
                    does = "is" if dotted(value) == parameter else "shares memory with" if is_sure else "may be"
                    effect = (
                        "torch 2.6 and later raise a RuntimeError" if is_checked else "the compiler takes it for new"
                    )
                    remedy = "return a copy: `.clone()`"
                    yield self.hit(
                        statement,
                        f"what the operator {function.name!r} returns {does} its input `{parameter}`: {effect}",
                        remedy=remedy
                        if is_checked
                        else f'{remedy}, or say it in the schema: `"(Tensor(a) x) -> Tensor(a)"`',
                        severity=None if is_sure and is_checked else Severity.WARNING,
                        confidence=Confidence.HIGH if is_sure else Confidence.MODERATE,
                        basis=SEEN if is_sure else f"{INFERRED}: it is where nothing has to be done",
                    )

    def _changed(self, function: Function, operator: Function) -> Iterator[RuleMatch]:
        named = _mutated(operator)
        for name in function.parameters if named is not None else ():
            place = _change_of(name, function) if name not in (named or ()) else None
            if place is not None:
                yield self.hit(
                    place,
                    f"the operator {operator.name!r} changes its input `{name}`, and `mutates_args` does not name it",
                    remedy=f'write `mutates_args={{"{name}"}}` and return nothing of it, or work on a copy',
                    severity=Severity.WARNING,
                )


def _operator_of(function: Function, operators: dict[str, Function]) -> Function | None:
    """Return the operator that a function is, or is a kernel of."""
    if operators.get(function.name) is function:
        return function
    for path in function.decorators:
        if path.endswith(".register_kernel()"):
            return operators.get(path.removesuffix(".register_kernel()"))
    return None


def _outputs(value: ast.expr | None) -> list[ast.expr]:
    if isinstance(value, ast.Tuple | ast.List):
        return list(value.elts)
    if isinstance(value, ast.IfExp):
        return [*_outputs(value.body), *_outputs(value.orelse)]
    return [] if value is None else [value]


def _alias(value: ast.expr, function: Function, line: int, steps: int = _STEPS) -> tuple[bool, str]:
    """Return whether an expression surely shares memory with a parameter, and which; no name where it does not."""
    inner, is_sure = _source(value, function)
    if inner is not None:
        below, parameter = _alias(inner, function, line, steps)
        return is_sure and below, parameter
    if not isinstance(value, ast.Name) or not steps:
        return False, ""
    last = _last(value.id, function, line)
    if last is None:
        return (True, value.id) if _is_tensor(value.id, function) else (False, "")
    if last.is_unpacked:
        return False, ""
    if last.block is not function.block:
        return (False, value.id) if _may_be_skipped(last, function) and _is_tensor(value.id, function) else (False, "")
    return _alias(last.value, function, last.line, steps - 1)


def _may_be_skipped(last: Assignment, function: Function) -> bool:
    """Return whether a name is bound under an `if` alone, so that it may still hold what was handed in."""
    node = last.block.node
    is_alone = isinstance(node, ast.If) and not node.orelse and last.block.parent is function.block
    others = [each for each in function.assignments.get(last.target, ()) if each.line < last.line]
    return is_alone and not others


def _source(value: ast.expr, function: Function) -> tuple[ast.expr | None, bool]:
    """Return the tensor whose memory an expression may share, and whether it surely does."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=arguments):
            if dotted(inner) in function.file.imports:
                is_view = dotted(inner) == "torch" and name in _VIEWS and bool(arguments)
                return (arguments[0], True) if is_view else (None, False)
            is_in_place = name.endswith("_") and not name.endswith("__")
            if name in _VIEWS or is_in_place:
                return inner, True
            return (inner, False) if name in _PERHAPS and not _copies(value) else (None, False)
        case ast.Attribute(value=inner, attr=name) if name in _VIEWS:
            return inner, True
        case ast.Subscript(value=inner, slice=ast.Slice() | ast.Constant() | ast.Tuple()):
            return (inner, True) if _is_basic(value.slice) else (None, False)
        case _:
            return None, False


def _copies(call: ast.Call) -> bool:
    return any(keyword.arg == "copy" for keyword in call.keywords)


def _is_basic(index: ast.expr) -> bool:
    """Return whether an index takes a view: slices, numbers, `...` and `None` do, lists and tensors copy."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(part, ast.Slice | ast.Constant) for part in parts)


def _last(name: str, function: Function, line: int) -> Assignment | None:
    """Return what a name was last bound to above a line; `x += y` leaves a tensor what it is."""
    found = None
    for each in function.assignments.get(name, ()):
        if each.line < line and not each.is_augmented:
            found = each
    return found


def _is_tensor(name: str, function: Function) -> bool:
    if name not in function.parameters or isinstance(function.node, ast.Module):
        return False
    arguments = function.node.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    annotation = next((each.annotation for each in listed if each.arg == name), None)
    return annotation is None or _TENSOR.fullmatch(ast.unparse(annotation).strip("'\"")) is not None


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _mutated(operator: Function) -> set[str] | None:
    """Return the inputs that an operator says it changes; None where that cannot be said."""
    nodes = [] if isinstance(operator.node, ast.Module) else operator.node.decorator_list
    for node, path in zip(nodes, operator.decorators, strict=False):
        if path in _OPERATORS and isinstance(node, ast.Call):
            said = next((keyword.value for keyword in node.keywords if keyword.arg == "mutates_args"), None)
            if isinstance(said, ast.Tuple | ast.List | ast.Set):
                return {_text(elt) for elt in said.elts}
            is_empty = isinstance(said, ast.Dict) or (isinstance(said, ast.Call) and not said.args)
            return set() if is_empty else None
    return None


def _change_of(name: str, function: Function) -> ast.expr | ast.stmt | None:
    """Return the first place that changes a parameter in place, while the name still holds it."""
    if not _is_tensor(name, function):
        return None
    rebound = min((each.line for each in function.assignments.get(name, ()) if not each.is_augmented), default=1 << 30)
    calls: list[ast.expr | ast.stmt]
    calls = [call.node for call in function.calls if _writes(call, name) and call.line <= rebound]
    parts = [each for path in (name, f"{name}[]") for each in function.assignments.get(path, ())]
    writes = [part.statement for part in parts if part.line <= rebound and (part.is_augmented or part.target != name)]
    return min([*calls, *writes], key=lambda each: each.lineno, default=None)


def _writes(call: Call, name: str) -> bool:
    is_in_place = call.tail.endswith("_") and not call.tail.endswith("__") and call.tail not in _IN_PLACE_ASIDE
    if is_in_place and call.receiver and root_of(call.receiver) == name:
        return "(" not in call.receiver
    return any(keyword.arg == "out" and dotted(keyword.value) == name for keyword in call.node.keywords)
