"""ESP269: a positional encoding is cut to the size of the batch, not of the time."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.sequence_layers import is_batch_first, layer_called

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function


class PositionsByBatch(Rule):
    """An encoding `x + self.pe[:x.size(0)]` for inputs whose first axis is the batch.

    ## Why it costs
    The encoding of torch's tutorial is made for (time, batch, features). Given (batch, time, features), axis 0 is the
    batch: every step of one sample gets the same encoding, which depends on the place of the sample in the batch. The
    transformer knows nothing of the order of the steps, and nothing raises.

    ## When it is right
    Inputs whose first axis is the time. Only encodings are reported whose result goes into a layer with
    `batch_first=True`.

    ## Sources
    PyTorch documentation of `torch.nn.TransformerEncoderLayer` (`batch_first`); tutorial "Language Modeling with
    nn.Transformer and torchtext", `PositionalEncoding`.
    """

    code, name = "ESP269", "positions-by-batch"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Positions(nn.Module):\n"
        "    def __init__(self, width, longest=5000):\n"
        "        super().__init__()\n"
        '        self.register_buffer("pe", torch.zeros(longest, 1, width))\n'
        "\n"
        "    def forward(self, x):\n"
        "        return x + self.pe[: x.size(0)]\n"
        "\n"
        "\n"
        "class Encoder(nn.Module):\n"
        "    def __init__(self, width):\n"
        "        super().__init__()\n"
        "        self.positions = Positions(width)\n"
        "        self.layer = nn.TransformerEncoderLayer(width, 8, batch_first=True)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.layer(self.positions(x))\n"
    )
    good = bad.replace("self.pe[: x.size(0)]", "self.pe[: x.size(1)].transpose(0, 1)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the encodings that are cut along the batch."""
        if "batch_first" not in file.text:
            return
        cuts = index.once("encodings cut by the first axis", lambda: _cuts(index))
        for call in file.calls if cuts else ():
            encoded = _given(call, index) if call.node.args and call.function.owner is not None else None
            called = index.callees(encoded) if encoded is not None else ()
            if encoded is None or not any(each in cuts for each in called) or not _takes_batch_first(call, index):
                continue
            cut, path = cuts[called[0]]
            where = f"line {cut.lineno}" if path == file.path else f"{path}:{cut.lineno}"
            yield self.hit(
                cut if path == file.path else encoded.node,
                f"`{encoded.path}` gives each sample of the batch a position, not each step: it cuts its encoding to "
                f"`{ast.unparse(cut)}` ({where}), and `{call.path}` (line {call.line}) takes the batch first",
                remedy="cut the encoding to `x.size(1)`, and give it the shape (1, time, features)",
                confidence=Confidence.MODERATE,
                basis=FOLLOWED,
            )


def _cuts(index: ProjectIndex) -> dict[Function, tuple[ast.expr, str]]:
    """Return the methods that add an encoding cut to the first size of their input, each with the cut and its file."""
    found: dict[Function, tuple[ast.expr, str]] = {}
    for file in index.files.values():
        for function in file.functions if file.imports_torch else ():
            cut = _cut_by_first_axis(function) if function.owner is not None and function.name == "forward" else None
            if cut is not None:
                found[function] = (cut, file.path)
    return found


def _given(call: Call, index: ProjectIndex) -> Call | None:
    """Return the call whose result another is given as its first argument, as it is."""
    origins = index.origins(call.node.args[0], call.function, call.line)
    made = [origin.value for origin in origins if origin.function is call.function]
    return next((each for each in call.function.calls if made and each.node is made[0]), None)


def _takes_batch_first(call: Call, index: ProjectIndex) -> bool:
    made = layer_called(call.node, call.function, call.line, index)
    if made is None:
        return False
    maker = index.origins(call.node.func, call.function, call.line)
    return is_batch_first(made, maker[0].function, maker[0].line, index) is True


def _cut_by_first_axis(function: Function) -> ast.expr | None:
    """Return the encoding that is cut to the first size of a parameter and added to it."""
    for node in walk(function.node):
        match node:
            case ast.BinOp(left=one, op=ast.Add(), right=other) | ast.AugAssign(target=one, op=ast.Add(), value=other):
                for value, added in ((one, other), (other, one)):
                    if isinstance(value, ast.Name) and value.id in function.parameters and _is_cut(added, value.id):
                        return added
            case _:
                pass
    return None


def _is_cut(node: ast.expr, name: str) -> bool:
    """Return whether an expression is `self.pe[:x.size(0)]`, with all of the other axes."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"detach", "to", "requires_grad_"}
    ):
        node = node.func.value
    if not isinstance(node, ast.Subscript) or not dotted(node.value).startswith("self."):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    first, rest = parts[0], parts[1:]
    is_rest_whole = all(isinstance(each, ast.Slice) and each.lower is None and each.upper is None for each in rest)
    if not isinstance(first, ast.Slice) or first.lower is not None or first.upper is None or not is_rest_whole:
        return False
    return ast.unparse(first.upper) in {f"{name}.size(0)", f"{name}.shape[0]", f"len({name})", f"{name}.size(dim=0)"}
