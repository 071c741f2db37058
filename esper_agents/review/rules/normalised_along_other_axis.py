"""ESP299: embeddings are normalised along the batch, and their products are read as cosines."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import SEEN, FileRule
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_COMPARING = frozenset(
    {"cross_entropy", "softmax", "log_softmax", "logsumexp", "topk", "argmax", "argsort", "sort", "max", "exp", "relu"}
)
_NORMS = frozenset({"norm", "vector_norm"})


class NormalisedAlongOtherAxis(FileRule):
    """`F.normalize(z, dim=0)` before `z @ z.t()`: the product sums along axis 1.

    ## Why it costs
    The entries of `z @ z.t()` are cosines only if each row of `z` has length 1. Normalised along axis 0, each feature
    has length 1 over the batch instead: similarities depend on the other samples of the batch and on the length of the
    embeddings, and a temperature no longer means what it should.

    ## When it is right
    The columns are meant, as in a projection on a basis: then nothing compares the entries of the product.

    ## Sources
    PyTorch documentation of `torch.nn.functional.normalize` (`dim`); Chen et al., "A Simple Framework for Contrastive
    Learning of Visual Representations", on the cosine similarity.
    """

    code, name = "ESP299", "normalised-along-other-axis"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def loss(z, labels):\n"
        "    z = F.normalize(z, dim=0)\n"
        "    return F.cross_entropy(z @ z.t() / 0.1, labels)\n"
    )
    good = bad.replace("dim=0", "dim=1")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the normalisations along axis 0 of rows whose products are compared."""
        if not file.imports_torch:
            return
        for function in file.functions:
            if not any(call.tail in _COMPARING for call in function.calls):
                continue
            for path, assignments in function.assignments.items():
                made = assignments[-1]
                if _is_along_batch(made.value, function) and (product := _product(path, made, function)) is not None:
                    yield self.hit(
                        made.statement,
                        f"{path!r} is normalised along axis 0, and the product in line {product.lineno} sums along "
                        "axis 1: its entries are no cosines",
                        remedy="normalise each row: `dim=-1`",
                        confidence=Confidence.HIGH,
                        basis=SEEN,
                    )


def _is_along_batch(value: ast.expr, function: Function) -> bool:
    """Return whether a value is normalised along axis 0: by `F.normalize`, or divided by its norm."""
    calls: dict[ast.expr, Call] = {call.node: call for call in function.calls}
    call = calls.get(value)
    if call is not None and call.name == "torch.nn.functional.normalize":
        return written(call.argument(2, "dim")) == 0
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div):
        return False
    for node in walk(value.right):
        norm = calls.get(node) if isinstance(node, ast.Call) else None
        if norm is not None and norm.tail in _NORMS:
            axis = written(next((each.value for each in norm.node.keywords if each.arg == "dim"), None))
            of = norm.argument(0) if norm.receiver.startswith("torch") else getattr(norm.node.func, "value", None)
            return axis == 0 and isinstance(of, ast.expr) and ast.dump(of) == ast.dump(value.left)
    return False


def _product(path: str, made: Assignment, function: Function) -> ast.expr | None:
    """Return a product after a line whose second factor is a value, transposed."""
    nodes: list[ast.expr] = [node for node in walk(function.node) if isinstance(node, ast.BinOp | ast.Call)]
    for node in nodes:
        if node.lineno <= made.line:
            continue
        match node:
            case ast.BinOp(op=ast.MatMult(), right=right):
                factor = right
            case ast.Call(func=func, args=[*_, factor]) if tail_of(dotted(func)) in {"matmul", "mm"}:
                pass
            case ast.Call(func=func, args=[ast.Constant(value=str() as terms), _, factor]) if dotted(func).endswith(
                "einsum"
            ):
                if _sums_last(terms) and dotted(factor) == path:
                    return node
                continue
            case _:
                continue
        if _transposed(factor) == path:
            return node
    return None


def _transposed(factor: ast.expr) -> str:
    """Return the path of what is transposed; empty if nothing is."""
    match factor:
        case ast.Call(func=ast.Attribute(value=inner, attr="t")) | ast.Attribute(value=inner, attr="T" | "mT"):
            return dotted(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="transpose"), args=[one, two]):
            return dotted(inner) if {written(one), written(two)} in ({0, 1}, {-1, -2}) else ""
        case _:
            return ""


def _sums_last(terms: str) -> bool:
    """Return whether `einsum` sums the last of two axes of its second factor, and keeps the first."""
    inputs, _, result = terms.replace(" ", "").partition("->")
    second = inputs.rpartition(",")[2]
    return len(second) == 2 and bool(result) and second[1] not in result and second[0] in result  # noqa: PLR2004
