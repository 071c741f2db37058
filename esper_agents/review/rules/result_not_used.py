"""ESP236: the new tensor that an operation returns is dropped, where the tensor itself was meant to change."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.inputs import is_said_to_be_tensor
from esper_agents.review.models import is_model
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import INFERRED, SEEN, Rule
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

# Methods of tensors that nothing else has, or that change no array and no data frame either.
_OF_TENSORS = frozenset(
    {"masked_fill", "masked_scatter", "unsqueeze", "permute", "contiguous", "clamp", "clamp_min", "clamp_max"}
    | {"softmax", "log_softmax", "sigmoid", "index_add", "index_fill", "index_copy", "scatter_add", "view_as"}
    | {"expand_as", "repeat_interleave", "type_as", "nan_to_num", "swapaxes", "movedim", "logical_not"}
)
# Methods whose names other objects have, too.
_SHARED = frozenset(
    {"to", "cuda", "cpu", "float", "half", "double", "long", "bfloat16", "int", "bool", "detach", "squeeze", "view"}
    | {"reshape", "transpose", "t", "flatten", "scatter", "clip", "expand", "repeat", "round", "abs", "sqrt", "mul"}
    | {"add", "sub", "div", "pow", "exp", "log", "neg", "roll", "flip", "type", "fill_diagonal"}
)
_FUNCTIONS = (
    *("torch.clamp", "torch.squeeze", "torch.unsqueeze", "torch.transpose", "torch.permute", "torch.reshape"),
    *("torch.flatten", "torch.masked_fill", "torch.nan_to_num", "torch.sigmoid", "torch.detach"),
    "torch.nn.functional.normalize",
)
_MOVING = frozenset({"to", "cuda", "cpu"})
_MAKING = frozenset(
    f"torch.{name}"
    for name in (
        *("tensor", "as_tensor", "from_numpy", "zeros", "ones", "full", "empty", "rand", "randn", "randint", "arange"),
        *(
            "linspace",
            "eye",
            "zeros_like",
            "ones_like",
            "rand_like",
            "randn_like",
            "full_like",
            "cat",
            "stack",
            "matmul",
        ),
        *("bmm", "einsum", "where", "softmax", "nn.functional.softmax", "nn.functional.interpolate", "triu", "tril"),
    )
)
# Methods that tell a tensor from every other argument.
_SURE = _OF_TENSORS | {"size", "dim", "numel", "argmax", "new_zeros", "new_ones", "gather", "bmm", "requires_grad_"}
_OF_MODULES = frozenset(
    {
        "parameters",
        "named_parameters",
        "modules",
        "state_dict",
        "load_state_dict",
        "eval",
        "train",
        "zero_grad",
        "apply",
    }
)
# Batches of these libraries change themselves when they are moved.
_OTHER_BATCHES = ("torch_geometric", "dgl", "transformers", "tensordict", "monai", "pyg")


class ResultNotUsed(Rule):
    """A statement such as `x.to(device)` or `scores.masked_fill(mask, value)`, whose result goes nowhere.

    ## Why it costs
    These operations return a new tensor and leave the one they are called on as it was. The line does nothing: the
    tensor stays on the CPU, unmasked or unclamped. A module's `.to()` changes the module, which is why this is missed.

    ## When it is right
    The result is assigned, or the operation with an underscore is meant: `scores.masked_fill_(mask, value)`. Modules
    are not reported, nor what a `try` probes, nor tests and benchmarks.

    ## Sources
    PyTorch documentation of `torch.Tensor.to` and "In-place semantics" in the notes on broadcasting.
    """

    code, name = "ESP236", "result-not-used"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def masked(scores: torch.Tensor, mask):\n"
        "    scores.masked_fill(mask, -1e9)\n"
        "    return scores\n"
    )
    good = bad.replace("    scores.masked", "    scores = scores.masked")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the statements that only compute a new tensor."""
        if file.purpose not in {Purpose.CODE, Purpose.EXAMPLE}:
            return
        for call in (*file.calls_ending(*sorted(_OF_TENSORS | _SHARED)), *file.calls_to(*_FUNCTIONS)):
            if not _is_statement(call) or _is_probed(call):
                continue
            changed, certainty = _changed(call, index)
            if changed:
                yield self._dropped(call, changed, is_certain=certainty)

    def _dropped(self, call: Call, changed: str, *, is_certain: bool) -> RuleMatch:
        stays = "where it was" if call.tail in _MOVING else "as it was"
        return self.hit(
            call.node,
            f"the tensor that `{call.tail}` returns is dropped: {changed!r} stays {stays}",
            remedy=f"write `{changed} = {ast.unparse(call.node)}`"
            if len(ast.unparse(call.node)) < 60  # noqa: PLR2004 - a screen's line
            else f"assign the result to `{changed}`",
            confidence=Confidence.HIGH if is_certain else Confidence.MODERATE,
            basis=SEEN if is_certain else f"{INFERRED}: that it is a tensor",
            severity=None if is_certain else Severity.WARNING,
        )


def _is_statement(call: Call) -> bool:
    is_alone = isinstance(call.parent, ast.Expr)
    return is_alone and not any(keyword.arg in {"out", "inplace"} for keyword in call.node.keywords)


def _is_probed(call: Call) -> bool:
    """Return whether a call stands in a `try`, or under a `with` such as that of a timer or a test."""
    return any(
        each.kind in {BlockKind.TRY, BlockKind.WITH} and "no_grad" not in str(each.contexts)
        for each in call.block.chain()
    )


def _changed(call: Call, index: ProjectIndex) -> tuple[str, bool]:
    """Return the tensor that a call leaves alone, empty if it is none, and whether it surely is a tensor."""
    if call.name in _FUNCTIONS:
        first = call.argument(0, "input")
        return (ast.unparse(first), True) if isinstance(first, ast.Name | ast.Attribute) else ("", False)
    func = call.node.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name | ast.Attribute):
        return "", False
    path = ast.unparse(func.value)
    if path == "self" or path.split(".")[0] in call.function.file.imports or _acts_as_module(path, call.function):
        return "", False
    if _is_tensor(func.value, path, call, index):
        return path, True
    return (path, False) if call.tail in _OF_TENSORS or _is_input(path, call, index) else ("", False)


def _acts_as_module(path: str, function: Function) -> bool:
    """Return whether a function uses an object as a module: calls it, or asks for its parameters or its mode."""
    return any(each.path == path or (each.receiver == path and each.tail in _OF_MODULES) for each in function.calls)


def _is_tensor(node: ast.expr, path: str, call: Call, index: ProjectIndex) -> bool:
    """Return whether an object surely is a tensor."""
    function = call.function
    if path in function.parameters:
        uses = {each.tail for each in function.calls if each.receiver == path}
        return is_said_to_be_tensor(path, function) or bool(uses & _SURE)
    origins = index.origins(node, function, call.line)
    made = [resolve(dotted(each.value.func), each.function) for each in origins if isinstance(each.value, ast.Call)]
    return len(made) == len(origins) > 0 and all(name in _MAKING for name in made)


def _is_input(path: str, call: Call, index: ProjectIndex) -> bool:
    """Return whether an object is what a model is called with, in a file where such an input is a tensor."""
    function = call.function
    if any(name.startswith(_OTHER_BATCHES) for name in function.file.imports.values()):
        return False
    return any(
        is_model(each.path, each, index) and any(dotted(arg) == path for arg in each.node.args)
        for each in function.calls
        if each.line > call.line
    )
