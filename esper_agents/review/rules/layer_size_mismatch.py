"""ESP205: a layer is given another number of features or channels than it was made for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.rule import FOLLOWED, SEEN, Rule, Shown
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import UNKNOWN, Layer, Object, Tensor
from esper_agents.review.shapes.layers import PARAMETERS, Misfit, given, wanted
from esper_agents.review.shapes.sizes import differ, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.shapes.facts import Value
    from esper_agents.review.shapes.interpreter import Interpreter
    from esper_agents.review.tables import Call, FileTables

_ASKING = tuple(each for each in PARAMETERS if wanted(Layer(each, {})) is not None)


class LayerSizeMismatch(Rule):
    """Layers in a row whose sizes do not fit: what comes out of the one is not what the next was made for.

    ## Why it costs
    The first forward pass raises `mat1 and mat2 shapes cannot be multiplied`, or that so many channels were expected.
    In code that runs seldom, such as the path for another backbone, that is months later.

    ## When it is right
    Never where both sizes are known. Only sizes that are written out are compared, or multiples of one name, such as
    `hidden` after a bidirectional LSTM that gives `2 * hidden`; lazy layers and computed sizes are left alone.

    ## Sources
    PyTorch documentation of `torch.nn.Linear`, `torch.nn.Conv2d`, `torch.nn.BatchNorm2d`, `torch.nn.Flatten` and
    `torch.nn.LSTM`, on the shapes of input and output.
    """

    code, name = "ESP205", "layer-size-mismatch"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    shown = Shown.RAISES
    bad = "from torch import nn\n\nmodel = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(32, 10))\n"
    good = bad.replace("nn.Linear(32, 10)", "nn.Linear(64, 10)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield the layers that cannot take what they are given."""
        shapes = shapes_of(index)
        for call in file.calls_to("torch.nn.Sequential"):
            yield from self._in_sequence(call, shapes)
        made = [*file.calls_to(*_CONSTRUCTORS), *_objects_made(file, index)]
        names = {tail_of(target) for each in made for target in _targets(each)}
        for call in file.calls_ending(*sorted(names - {""})):
            if call.node.args and not call.has_splat() and "(" not in call.path and "[" not in call.path:
                yield from self._called(call, shapes)

    def _in_sequence(self, call: Call, shapes: Interpreter) -> Iterator[Hit]:
        """Yield the layers of a `Sequential` that do not fit the one before, whatever it is given."""
        sequence = shapes.ask(call.node, call)
        if not isinstance(sequence, Layer) or len(sequence.parts) != len(call.node.args):
            return
        value: Value = UNKNOWN
        for node, part in zip(call.node.args, sequence.parts, strict=True):
            misfit = _misfit(part, value, shapes)
            if misfit is not None:
                yield self._found(node, misfit, SEEN)
                return
            value = shapes.apply_to(part, value, call)

    def _called(self, call: Call, shapes: Interpreter) -> Iterator[Hit]:
        layer = shapes.ask(call.node.func, call)
        asked = shapes.first_of(layer) if isinstance(layer, Object) else [layer]
        if not any(isinstance(each, Layer) and _asks(each) for each in asked):
            return
        if isinstance(layer, Object) and shapes.is_reached(layer):
            # What goes wrong is told where it does, inside.
            return
        value = shapes.ask(call.node.args[0], call)
        misfit = self._first_misfit(layer, value, shapes, call)
        if misfit is not None and self._first_misfit(layer, UNKNOWN, shapes, call) is None:
            is_open = isinstance(value, Tensor) and value.is_open
            yield self._found(call.node, misfit, SEEN if is_open else FOLLOWED)

    def _first_misfit(self, layer: Value, value: Value, shapes: Interpreter, call: Call) -> Misfit | None:
        """Return what the first part of a layer that cannot take its input cannot take."""
        parts = layer.parts if isinstance(layer, Layer) and layer.name == "Sequential" else (layer,)
        for part in parts:
            misfit = _misfit(part, value, shapes)
            if misfit is not None:
                return misfit
            value = shapes.apply_to(part, value, call)
        return None

    def _found(self, node: ast.AST, misfit: Misfit, basis: str) -> Hit:
        return self.hit(
            node,
            f"this layer was made for {named(misfit.wanted)} {misfit.what} and is given {named(misfit.given)}",
            remedy="make both the same, or let `torch.nn.LazyLinear` and its kind take theirs from the first batch",
            confidence=Confidence.HIGH if basis is SEEN else Confidence.MODERATE,
            basis=basis,
        )


_CONSTRUCTORS = tuple(f"torch.nn.{each}" for each in (*_ASKING, "Sequential"))


def _targets(made: Call) -> Iterator[str]:
    """Yield what the layer that a constructor makes is assigned to."""
    if isinstance(made.statement, ast.Assign):
        for each in made.statement.targets:
            parts = each.elts if isinstance(each, ast.Tuple | ast.List) else [each]
            yield from (dotted(part) for part in parts)
    elif isinstance(made.statement, ast.AnnAssign):
        yield dotted(made.statement.target)


def _asks(layer: Layer) -> bool:
    """Return whether a layer's own size is known, or that of one of its parts."""
    ask = wanted(layer)
    return (ask is not None and ask.wanted is not None) or any(
        isinstance(each, Layer) and _asks(each) for each in layer.parts
    )


def _objects_made(file: FileTables, index: ProjectIndex) -> Iterator[Call]:
    """Yield the constructor calls of modules of the reviewed files."""
    for tail, calls in file.by_tail.items():
        if tail[:1].isupper() and tail in index.classes:
            owner = index.class_named(calls[0].name, file)
            if owner is not None and index.is_module(owner):
                yield from calls


def _misfit(layer: Value, value: Value, shapes: Interpreter) -> Misfit | None:
    """Return what a layer cannot take of what it is given; of a network what its first layer cannot."""
    if not isinstance(value, Tensor):
        return None
    if isinstance(layer, Object):
        found = (_misfit(each, value, shapes) for each in shapes.first_of(layer) if isinstance(each, Layer))
        return next((each for each in found if each is not None), None)
    if not isinstance(layer, Layer):
        return None
    if layer.name == "Sequential":
        return _misfit(layer.parts[0], value, shapes) if layer.parts else None
    ask = wanted(layer)
    if ask is None:
        return None
    size = given(layer, value)
    return Misfit(ask.wanted, size, ask.what) if differ(ask.wanted, size) else None
