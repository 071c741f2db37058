"""ESP202: a softmax whose axis is missing, or is not the one that is to sum to one."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.index import Origin
from esper_agents.review.names import dotted
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, SEEN, Rule
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import UNKNOWN, Layer, Tensor
from esper_agents.review.shapes.layers import size
from esper_agents.review.shapes.sizes import Symbol
from esper_agents.review.softmaxes import (
    FUNCTIONS,
    MODULES,
    Softmax,
    axes_of_divergence,
    contracted_axis,
    is_of_leading_axes,
    is_over_edges,
    is_product,
    is_product_of_keys,
    is_turned_into_row,
    read_along,
    softmaxes,
    weighs_values,
    written,
)
from esper_agents.review.weights import is_over_batch, rank_of, summed_along

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.shapes.facts import Value
    from esper_agents.review.shapes.interpreter import Interpreter
    from esper_agents.review.tables import Call, FileTables

_IMAGE = 4
_STEPS = 3
_BATCHES = pattern(r"loader|batch|\.split\(|\.chunk\(", re.IGNORECASE)


class SoftmaxAxis(Rule):
    """A softmax that names no axis, or one along which its result is not read.

    ## Why it costs
    Without `dim` torch guesses: axis 0 for 0, 1 or 3 dimensions, axis 1 otherwise, and the guess is deprecated. Over
    axis 0 of a batch the examples compete with each other, over the axis of the queries the weights of a query no
    longer sum to one, over the width of an image its columns compete and not the classes. Shapes fit either way, so
    nothing fails.

    ## When it is right
    Axis 0 is the right one for a vector of weights, or over a stack of terms, and the axis of the queries where slots
    compete for inputs and are normalised afterwards. An axis is reported only where the reviewed files show what the
    scores are, such as the output of a layer or a product of queries and keys, or along which axis the weights are
    used: the best class is taken, values are summed up, or a matrix product sums up the last.

    ## Sources
    PyTorch documentation of `torch.nn.functional.softmax`: the parameter `dim`, and the deprecation of leaving it
    out; and of `torch.nn.functional.scaled_dot_product_attention`, on the axis of the weights.
    """

    code, name = "ESP202", "softmax-axis"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = "import torch.nn.functional as F\n\n\ndef attend(scores, values):\n    return F.softmax(scores) @ values\n"
    good = bad.replace("F.softmax(scores)", "F.softmax(scores, dim=-1)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield softmaxes without an axis, and those along the wrong one."""
        for call in file.calls_to(*FUNCTIONS):
            if call.argument(1, "dim") is None and not call.has_splat():
                yield self._guessed(call)
        for call in file.calls_to(*MODULES):
            if call.argument(0, "dim") is None and not call.has_splat():
                yield self._guessed(call)
        for found in softmaxes(file, index):
            yield from self._along(found, index)
        for call in file.calls_to("torch.nn.functional.kl_div"):
            axes = axes_of_divergence(call, index)
            if axes is not None and _differ(*axes, UNKNOWN):
                what = f"compares a softmax along axis {axes[0]} with one along axis {axes[1]}"
                yield self._wrong(call.node, "kl_div", what, "take both along the same axis")
        for call in file.calls_to("torch.nn.Sequential"):
            yield from self._in_sequence(call, shapes_of(index))

    def _guessed(self, call: Call) -> RuleMatch:
        return self.hit(
            call.node,
            f"`{call.tail}` names no axis, so torch picks one by the number of dimensions",
            remedy="write `dim=-1`, or the axis that is meant",
            basis=SEEN,
        )

    def _along(self, found: Softmax, index: ProjectIndex) -> Iterator[RuleMatch]:
        value = shapes_of(index).ask(found.scores, found.call)
        scores = value if isinstance(value, Tensor) else UNKNOWN
        if found.axis == 0 and _has_batch_first(found, scores, index):
            yield self._wrong(
                found.call.node, found.call.tail, "over axis 0 of a batch makes its examples compete", "write `dim=-1`"
            )
        elif found.axis == 0 and (is_turned_into_row(found) or is_over_batch(found, scores, index)):
            what = "over axis 0 of a batch makes its examples compete"
            yield self._wrong(found.call.node, found.call.tail, what, "write `dim=-1`")
        elif found.axis == 0 and is_over_edges(found, index):
            what = "over axis 0 makes all edges of the graph compete, not those of one node"
            yield self._wrong(found.call.node, found.call.tail, what, "take it over the edges that end at each node")
        elif _has_one_only(found, scores, index):
            what = f"along axis {found.axis}, which has a size of 1, gives nothing but ones"
            yield self._wrong(
                found.call.node, found.call.tail, what, "write the axis of what is to compete, such as `dim=1`"
            )
        elif found.axis == 0 and (used := summed_along(found)) is not None and used[1] > 0:
            what = f"along axis 0, while line {used[0].line} sums up what it weighs along axis {used[1]}"
            yield self._wrong(found.call.node, found.call.tail, what, f"write `dim={used[1]}`")
        elif (
            _is_over_queries(found, rank_of(found, scores, index), index)
            and is_product_of_keys(found.scores, found.call, index)
            and weighs_values(found)
        ):
            yield self._wrong(
                found.call.node,
                found.call.tail,
                "over the axis of the queries leaves weights that do not sum to 1",
                "write `dim=-1`",
            )
        elif (
            (summed := contracted_axis(found)) is not None
            and found.axis % summed[1] != summed[0]
            and is_product(found.scores, found.call, index)
        ):
            what = f"along axis {found.axis}, while `einsum` sums its result up along axis {summed[0]}"
            yield self._wrong(found.call.node, found.call.tail, what, f"write `dim={summed[0]}`")
        elif _is_over_pixels(found, scores, index):
            yield self._wrong(
                found.call.node,
                found.call.tail,
                "over a spatial axis makes the pixels of a row compete",
                "write `dim=1`",
            )
        else:
            yield from self._against_choice(found, scores)

    def _against_choice(self, found: Softmax, scores: Tensor) -> Iterator[RuleMatch]:
        """Yield a softmax along another axis than that along which the best is taken before or after it."""
        read, chosen = read_along(found), _chosen_along(found)
        if read is not None and _differ(found.axis, read[1], scores):
            what = f"along axis {found.axis}, while line {read[0].line} takes the best along axis {read[1]}"
            yield self._wrong(found.call.node, found.call.tail, what, f"write `dim={read[1]}`")
        elif scores.rank is not None:
            return
        elif read is not None and _may_differ(found.axis, read[1]):
            yield self._unlike(found, f"line {read[0].line} takes the best", read[1])
        elif chosen is not None and _may_differ(found.axis, chosen[1]):
            yield self._unlike(found, f"line {chosen[0].lineno} chooses the scores", chosen[1])

    def _wrong(self, node: ast.expr, name: str, what: str, remedy: str) -> RuleMatch:
        return self.hit(
            node,
            f"`{name}` {what}",
            remedy=remedy,
            confidence=Confidence.MODERATE,
            basis=f"{INFERRED}: from how the scores are made and read",
        )

    def _unlike(self, found: Softmax, other: str, axis: int) -> RuleMatch:
        """Return the match of two axes that are one in a matrix alone, where the number of axes is not known."""
        return self.hit(
            found.call.node,
            f"`{found.call.tail}` runs along axis {found.axis}, and {other} along axis {axis}: these are one axis only "
            "if there are two",
            remedy=f"write the same axis in both places: `dim={axis}`",
            confidence=Confidence.LOW,
            basis=f"{INFERRED}: if there are more than two axes",
            severity=Severity.SUGGESTION,
        )

    def _in_sequence(self, call: Call, shapes: Interpreter) -> Iterator[RuleMatch]:
        """Yield a softmax over axis 0 that follows a linear layer in a `Sequential`."""
        for before, node in pairwise(call.node.args):
            one, two = shapes.ask(before, call), shapes.ask(node, call)
            is_scores = isinstance(one, Layer) and one.name == "Linear" and size(one, "out_features") != 1
            if is_scores and isinstance(two, Layer) and "oftm" in two.name and size(two, "dim") == 0:
                yield self._wrong(node, two.name, "over axis 0 of a batch makes its examples compete", "write `dim=-1`")


def _has_batch_first(found: Softmax, scores: Tensor, index: ProjectIndex) -> bool:
    """Return whether axis 0 is surely that of the examples, and another one that of the classes."""
    if scores.last == 1 or (scores.rank is not None and scores.rank < 2):  # noqa: PLR2004 - examples and classes
        return False
    first = scores.dims[0] if not scores.is_open and scores.dims else None
    if isinstance(first, Symbol) and any(".batch@" in f".{name}" for name in first.names):
        return True
    if found.call.function.name == "forward":
        return _made_by(found, index, "Linear")
    return isinstance(scores.last, int) and _is_of_batch(found, index)


def _is_of_batch(found: Softmax, index: ProjectIndex) -> bool:
    """Return whether the scores are what a network makes of a batch, by the loop that hands it out."""
    function = found.call.function
    for origin in index.origins(found.scores, function, found.call.line):
        value = origin.value
        if not (isinstance(value, ast.Call) and value.args and origin.function is function):
            continue
        made = index.binding(dotted(value.args[0]), function, origin.line)
        source = ast.unparse(made.value) if made is not None and isinstance(made.statement, ast.For) else ""
        if _BATCHES.search(source):
            return True
    return False


def _has_one_only(found: Softmax, scores: Tensor, index: ProjectIndex) -> bool:
    """Return whether the axis is that of the outputs of a layer with a single one."""
    if found.axis in {-1, len(scores.dims) - 1} and scores.last == 1 and (found.axis < 0 or not scores.is_open):
        return _made_by(found, index, "Linear")
    is_channel = found.axis in {1, -3} and len(scores.dims) == _IMAGE and scores.dims[1] == 1
    return is_channel and _made_by(found, index, "Conv2d")


def _is_over_queries(found: Softmax, rank: int | None, index: ProjectIndex) -> bool:
    if rank is None and found.axis == 1:
        return is_of_leading_axes(found, index)
    if rank is not None and rank > 2:  # noqa: PLR2004 - queries and keys, and a batch
        return found.axis not in {-1, rank - 1}
    return found.axis == -2  # noqa: PLR2004 - the last but one


def _is_over_pixels(found: Softmax, scores: Tensor, index: ProjectIndex) -> bool:
    return scores.rank == _IMAGE and found.axis in {-1, -2, 2, 3} and _made_by(found, index, "Conv2d")


def _made_by(found: Softmax, index: ProjectIndex, name: str) -> bool:
    """Return whether the scores are what a layer of one kind has just made, alone or at the end of a `Sequential`."""
    nodes = [Origin(found.scores, found.call.function, found.call.line)]
    for _ in range(_STEPS):
        # Divided by a temperature, or scaled otherwise, they are still the scores.
        nodes = [origin for node in nodes for origin in index.origins(_unscaled(node.value), node.function, node.line)]
    return any(isinstance(node.value, ast.Call) and _is_layer(node, index, name) for node in nodes)


def _unscaled(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
        node = node.left
    return node


def _is_layer(origin: Origin, index: ProjectIndex, name: str) -> bool:
    called = origin.value.func if isinstance(origin.value, ast.Call) else origin.value
    last: Value = shapes_of(index).module_at(called, origin.function, origin.line)
    while isinstance(last, Layer) and last.name == "Sequential" and last.parts:
        last = last.parts[-1]
    return isinstance(last, Layer) and last.name == name


def _chosen_along(found: Softmax) -> tuple[ast.Call, int] | None:
    """Return what keeps the best scores before a softmax, with its axis: `scatter` of what `topk` gives."""
    function, node, line = found.call.function, found.scores, found.call.line
    for _ in range(_STEPS):
        made = function.last_assignment(node.id, line) if isinstance(node, ast.Name) else None
        if made is None or made.is_unpacked or made.is_augmented:
            break
        node, line = made.value, made.line
    if not isinstance(node, ast.Call) or dotted(node.func).rpartition(".")[2] not in {"scatter", "scatter_"}:
        return None
    axis = written(
        next((each.value for each in node.keywords if each.arg == "dim"), node.args[0] if node.args else None)
    )
    return (node, axis) if axis is not None else None


def _may_differ(one: int, two: int) -> bool:
    """Return whether two axes are not the same by name, nor the only one of a vector."""
    return one != two and {one, two} != {0, -1}


def _differ(one: int, two: int, scores: Tensor) -> bool:
    """Return whether two axes are surely not the same."""
    if (one < 0) == (two < 0):
        return one != two
    if scores.is_open and {one, two} == {0, -1}:
        return len(scores.dims) > 1
    return scores.rank is not None and one % scores.rank != two % scores.rank
