"""ESP517: an export by tracing declares a size dynamic, and a Python loop over a size is unrolled."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, root_of
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function


class LoopFixedByTrace(Rule):
    """`torch.onnx.export(..., dynamic_axes=..., dynamo=False)` of a module that loops over a size of its input.

    ## Why it costs
    Tracing runs the module once and writes down its operations. `for t in range(x.size(1))` becomes as many copies of
    its body as the example has steps. The exported model takes inputs of other lengths, as declared, and computes the
    steps of the example alone, or fails.

    ## When it is right
    The size of the loop never changes, and another axis is the dynamic one. Modules that `torch.jit.script` compiles
    keep their loops, and `dynamo=True` says what it cannot keep.

    ## Sources
    PyTorch documentation of `torch.jit.trace`, which records no control flow, and of `torch.onnx.export`
    (`dynamic_axes`, `dynamo`).
    """

    code, name = "ESP517", "loop-fixed-by-trace"
    severity, category = Severity.WARNING, Category.COMPILE
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Smoother(nn.Module):\n"
        "    def forward(self, x):\n"
        "        state = x[:, 0]\n"
        "        for t in range(1, x.size(1)):\n"
        "            state = 0.9 * state + 0.1 * x[:, t]\n"
        "        return state\n"
        "\n"
        "\n"
        "def export(path):\n"
        "    torch.onnx.export(\n"
        "        Smoother().eval(), (torch.rand(1, 32, 4),), path, input_names=['x'],\n"
        "        dynamic_axes={'x': {1: 'time'}}, dynamo=False,  # esper: ignore[ESP514] the runtime is old\n"
        "    )\n"
    )
    good = bad.replace("dynamo=False", "dynamo=True")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the exports whose dynamic sizes a loop fixes."""
        if any(index.calls_ending("script", "script_if_tracing")):
            return
        for call in file.calls_to("torch.onnx.export"):
            axes, dynamo = call.argument(99, "dynamic_axes"), call.argument(99, "dynamo")
            is_traced = isinstance(dynamo, ast.Constant) and dynamo.value is False
            model = call.argument(0, "model")
            owner = index.class_of(model, call.function, call.line) if model is not None else None
            forward = index.method(owner, "forward") if owner is not None else None
            if axes is None or not is_traced or forward is None:
                continue
            found = _loop_over_size(forward, _dynamic(axes, call, index), index)
            if found is not None:
                function, loop = found
                yield self.hit(
                    axes,
                    f"tracing unrolls the loop of {function.qualname!r} ({function.file.path}:{loop.lineno}) to the "
                    "size of the example: inputs of the other sizes declared here are cut, or fail",
                    remedy="export with `dynamo=True`, compile that module with `torch.jit.script`, or write the loop "
                    "as one operation",
                    confidence=Confidence.MODERATE,
                    basis=FOLLOWED,
                )


def _dynamic(axes: ast.expr, call: Call, index: ProjectIndex) -> set[int]:
    """Return the axes that are declared dynamic, of whatever input."""
    found: set[int] = set()
    for origin in index.origins(axes, call.function, call.line):
        for each in origin.value.values if isinstance(origin.value, ast.Dict) else ():
            keys = each.keys if isinstance(each, ast.Dict) else getattr(each, "elts", [])
            found |= {number for key in keys if (number := written(key)) is not None}
    return found


def _loop_over_size(forward: Function, dynamic: set[int], index: ProjectIndex) -> tuple[Function, ast.For] | None:
    """Return a loop over a size of an input that may be dynamic, with its function."""
    for function in index.closure(forward):
        if any("script" in each for each in function.decorators):
            continue
        for block in function.blocks:
            loop = block.node
            if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or function.is_module:
                continue
            axis = _size_of_input(loop.iter, function)
            # A layout may change on the way, but the batch commonly stays first.
            if axis is not None and (axis in dynamic or (axis != 0 and dynamic - {0})):
                return function, loop
    return None


def _size_of_input(rounds: ast.Call, function: Function) -> int | None:
    """Return the axis of a parameter, or of what is computed from one, whose size is the end of a range."""
    if dotted(rounds.func) != "range" or not rounds.args:
        return None
    end: ast.expr = rounds.args[min(len(rounds.args), 2) - 1]
    if isinstance(end, ast.Name):
        made = function.last_assignment(end.id, rounds.lineno)
        end = made.value if made is not None and not made.is_unpacked else end
    match end:
        case ast.Call(func=ast.Attribute(value=value, attr="size"), args=[axis]):
            pass
        case ast.Subscript(value=ast.Attribute(value=value, attr="shape"), slice=axis):
            pass
        case _:
            return None
    path = dotted(value)
    is_input = bool(path) and root_of(path) != "self" and (path in function.parameters or path in function.assignments)
    return written(axis) if is_input else None
