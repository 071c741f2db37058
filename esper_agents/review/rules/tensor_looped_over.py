"""ESP409: Python computes a tensor element by element."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import names_in
from esper_agents.review.elementwise import Work
from esper_agents.review.hot import hot_around
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, SEEN, Rule, RuntimeExpectation
from esper_agents.review.sample_loops import overs, sample_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

# What runs once, or is written as a loop on purpose.
_ONCE = pattern(
    r"__init__|__post_init__|_?init_?\w*|reset_parameters|\w*_loop(?:ed)?(?:_\w+)?|\w*_step_by_step|__repr__|__str__"
    r"|_?(?:build|make|create|get|precompute|compute|set|prepare|register)_\w*"
    r"(?:mask|bias|index|indices|grid|table|encoding|embedding|kernel|filter|window|anchors?|matrix|weights?)\w*"
    r"|(?:\w+_)?(?:plot|draw|print|show|save|visuali[sz]e|export|convert|test|debug|reference|naive|slow)(?:_\w+)?"
)
_PRODUCTS = frozenset({"dot", "inner", "vdot", "matmul", "cosine_similarity", "dist"})
_COMPUTING = pattern(
    r"_?forward\w*|__call__|\w*loss\w*|training_step|compute_\w+|\w*distance\w*|\w*similarity\w*|\w*attention\w*"
)


class TensorLoopedOver(Rule):
    """A Python loop that computes a tensor one element or one row at a time.

    ## Why it costs
    Each round makes small tensors, starts a kernel for each of them and comes back to Python, some ten microseconds for
    work of a nanosecond. In training autograd also records every round as a node of its own. One operation on whole
    tensors does the same in one kernel.

    ## When it is right
    A round needs the result of the round before, rounds have different sizes, the loop runs once at the start, or the
    sizes are small and fixed. Recurrences, loops over layers or lists, and loops that call other code are not reported.

    ## Sources
    PyTorch notes, "Broadcasting semantics"; PyTorch performance tuning guide, on the cost of small kernels.
    """

    code, name = "ESP409", "tensor-looped-over"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    shown = RuntimeExpectation.REPEATS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def pairwise_distance_loss(a, b):\n"
        "    distances = torch.zeros(a.size(0), b.size(0), device=a.device)\n"
        "    for i in range(a.size(0)):\n"
        "        for j in range(b.size(0)):\n"
        "            distances[i, j] = ((a[i] - b[j]) ** 2).sum()\n"
        "    return distances.mean()\n"
    )
    good = "import torch\n\n\ndef pairwise_distance_loss(a, b):\n    return torch.cdist(a, b).square().mean()\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the outermost loop of each such computation."""
        done: set[Block] = set()
        for block in sample_loops(file, index) if file.imports_torch else ():
            outermost = _outermost(block)
            if outermost in done or block.function.is_module or _ONCE.fullmatch(block.function.name):
                continue
            work = Work(block, index)
            if work.computes_elements():
                done.add(outermost)
                yield self._found(outermost, work, is_hot=_is_hot(block, index))
        for function in file.functions if file.imports_torch else ():
            for block in function.blocks:
                if isinstance(block.node, ast.For) and _outermost(block) not in done and _multiplies_rows(block.node):
                    done.add(_outermost(block))
                    yield self._of_rows(block.node)

    def _of_rows(self, loop: ast.For) -> RuleMatch:
        rows = ast.unparse(loop.iter)
        return self.hit(
            loop,
            f"each round multiplies one row of {rows!r} with the same tensor and stores one number",
            remedy=f"write one product, `{rows} @ other`, and read the result once",
            confidence=Confidence.MODERATE,
            basis=f"{INFERRED}: that it is a tensor, from how its rows are used",
            severity=Severity.SUGGESTION,
        )

    def _found(self, loop: Block, work: Work, *, is_hot: bool) -> RuleMatch:
        is_sure = work.over.is_sure
        return self.hit(
            loop.node,
            "a tensor is computed in Python, one element or row in each round",
            remedy="write it as one operation on whole tensors: by broadcasting, `torch.where` or `torch.einsum`, and "
            "windows by `Tensor.unfold`, a pooling or `torch.cumsum`",
            confidence=Confidence.HIGH if is_sure else Confidence.MODERATE,
            basis=SEEN if is_sure else f"{INFERRED}: that it is a tensor, from how it is used",
            severity=None
            if is_hot and work.goes_over_rows and (work.depth > 1 or work.is_summed)
            else Severity.SUGGESTION,
        )


def _multiplies_rows(loop: ast.For) -> bool:
    """Return whether a loop stores the product of each row and another tensor, and does nothing else."""
    match loop:
        case ast.For(
            target=ast.Name(id=row),
            iter=ast.Name() | ast.Attribute(),
            body=[ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[value]))],
        ):
            pass
        case _:
            return False
    match value:
        case (
            ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[])
            | ast.Call(func=ast.Name(id="float"), args=[inner])
        ):
            value = inner
        case _:
            return False
    factors: list[ast.expr] = []
    match value:
        case ast.Call(func=ast.Attribute(attr="sum"), args=[]) as call:
            product = call.func.value  # type: ignore[attr-defined]
            factors = [product.left, product.right] if isinstance(product, ast.BinOp) else []
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            factors = [left, right]
        case ast.Call(func=func, args=[first, second, *_]) if tail_of(dotted(func)) in _PRODUCTS:
            factors = [first, second]
        case ast.Call(func=ast.Attribute(value=first, attr=tail), args=[second]) if tail in _PRODUCTS:
            factors = [first, second]
        case _:
            pass
    return any(dotted(each) == row for each in factors) and any(row not in names_in(each) for each in factors)


def _is_hot(block: Block, index: ProjectIndex) -> bool:
    """Return whether a loop runs in every training step, or in a function that computes with tensors by its name."""
    return _COMPUTING.fullmatch(block.function.name) is not None or hot_around(block, index) is not None


def _outermost(block: Block) -> Block:
    """Return the outermost loop round a block that counts through a tensor as well."""
    found = block
    for loop in block.loops():
        if loop is not block and any(over.counter and over.path for over in overs(loop)):
            found = loop
    return found
