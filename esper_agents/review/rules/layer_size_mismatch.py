"""ESP205: a layer is given another number of features or channels than it was made for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.rule import FOLLOWED, SEEN, Rule, RuntimeExpectation
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import UNKNOWN, Layer, Object, Tensor
from esper_agents.review.shapes.layers import PARAMETERS, Misfit, given, wanted
from esper_agents.review.shapes.sizes import differ, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.shapes.facts import Value
    from esper_agents.review.shapes.interpreter import Interpreter
    from esper_agents.review.tables import Call, FileTables, Function

_ASKING = tuple(parameter for parameter in PARAMETERS if wanted(Layer(parameter, {})) is not None)


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
    shown = RuntimeExpectation.RAISES
    bad = "from torch import nn\n\nmodel = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(32, 10))\n"
    good = bad.replace("nn.Linear(32, 10)", "nn.Linear(64, 10)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the layers that cannot take what they are given."""
        shapes = shapes_of(index)
        for call in file.calls_to("torch.nn.Sequential"):
            yield from self._in_sequence(call, shapes)
        made = [*file.calls_to(*_CONSTRUCTORS), *_objects_made(file, index), *_built_by_functions(file, index)]
        names = {tail_of(target) for each in made for target in _targets(each)}
        for call in file.calls_ending(*sorted(names - {""})):
            if call.node.args and not call.has_splat() and "(" not in call.path and "[" not in call.path:
                yield from self._called(call, shapes)

    def _in_sequence(self, call: Call, shapes: Interpreter) -> Iterator[RuleMatch]:
        """Yield the layers of a `Sequential` that do not fit the one before, whatever it is given."""
        sequence = shapes.ask(call.node, call)
        if not isinstance(sequence, Layer):
            return
        is_spread = len(sequence.parts) != len(call.node.args) or call.has_splat()
        nodes = [call.node] * len(sequence.parts) if is_spread else call.node.args
        value: Value = UNKNOWN
        for node, part in zip(nodes, sequence.parts, strict=True):
            misfit = _misfit(part, value, shapes)
            if misfit is not None:
                yield self._found(node, misfit, SEEN)
                return
            value = shapes.apply_to(part, value, call)

    def _called(self, call: Call, shapes: Interpreter) -> Iterator[RuleMatch]:
        layer = shapes.ask(call.node.func, call)
        asked = shapes.first_of(layer) if isinstance(layer, Object) else [layer]
        if not any(isinstance(each, Layer) and _asks(each) for each in asked):
            return
        if isinstance(layer, Object) and shapes.is_reached(layer):
            # What goes wrong is told where it does, inside.
            return
        value = shapes.ask(call.node.args[0], call)
        if isinstance(layer, Object) and _is_written_out(value):
            yield from self._inside(layer, call, shapes)
        misfit = self._first_misfit(layer, value, shapes, call)
        if misfit is not None and self._first_misfit(layer, UNKNOWN, shapes, call) is None:
            is_open = isinstance(value, Tensor) and value.is_open
            yield self._found(call.node, misfit, SEEN if is_open else FOLLOWED)

    def _inside(self, network: Object, call: Call, shapes: Interpreter) -> Iterator[RuleMatch]:
        """Yield the first layer inside a network that cannot take what is left of an input of a known size."""
        for inner, layer, value in shapes.calls_inside(network, call):
            misfit = self._first_misfit(layer, value, shapes, inner) if isinstance(layer, Layer) else None
            if misfit is not None:
                is_here = inner.function.file is call.function.file
                yield self._found(inner.node if is_here else call.node, misfit, FOLLOWED)
                return

    def _first_misfit(self, layer: Value, value: Value, shapes: Interpreter, call: Call) -> Misfit | None:
        """Return what the first part of a layer that cannot take its input cannot take."""
        parts = layer.parts if isinstance(layer, Layer) and layer.name == "Sequential" else (layer,)
        for part in parts:
            misfit = _misfit(part, value, shapes)
            if misfit is not None:
                return misfit
            value = shapes.apply_to(part, value, call)
        return None

    def _found(self, node: ast.AST, misfit: Misfit, basis: str) -> RuleMatch:
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
        for target in made.statement.targets:
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            yield from (dotted(part) for part in parts)
    elif isinstance(made.statement, ast.AnnAssign):
        yield dotted(made.statement.target)


def _asks(layer: Layer) -> bool:
    """Return whether a layer's own size is known, or that of one of its parts."""
    ask = wanted(layer)
    return (ask is not None and ask.wanted is not None) or any(
        isinstance(part, Layer) and _asks(part) for part in layer.parts
    )


def _objects_made(file: FileTables, index: ProjectIndex) -> Iterator[Call]:
    """Yield the constructor calls of modules of the reviewed files."""
    for tail, calls in file.by_tail.items():
        if tail[:1].isupper() and tail in index.classes:
            owner = index.class_named(calls[0].name, file)
            if owner is not None and index.is_module(owner):
                yield from calls


def _built_by_functions(file: FileTables, index: ProjectIndex) -> Iterator[Call]:
    """Yield the calls of functions of the reviewed files that hand back a layer: `self.enc = double(3, 16)`."""
    builders = index.once("functions that build layers", lambda: frozenset(_builders(index)))
    names = index.once("names of what builds layers", lambda: frozenset(builder.name for builder in builders))
    for tail in sorted(names & file.by_tail.keys()):
        for call in file.calls_ending(tail):
            if any(callee in builders for callee in index.callees(call)):
                yield call


def _builders(index: ProjectIndex) -> Iterator[Function]:
    for file in index.files.values():
        for call in file.calls_to(*_CONSTRUCTORS):
            if not call.function.is_module and any(_is_handed_back(call, each) for each, _ in call.function.returns):
                yield call.function


def _is_handed_back(call: Call, statement: ast.Return) -> bool:
    is_named = isinstance(statement.value, ast.Name) and statement.value.id in set(_targets(call))
    return statement.value is call.node or is_named


def _is_written_out(value: Value) -> bool:
    """Return whether all sizes of a tensor are plain numbers, as those of `torch.randn(2, 3, 224, 224)` are."""
    is_known = isinstance(value, Tensor) and not value.is_open and bool(value.dims)
    return is_known and isinstance(value, Tensor) and all(isinstance(dim, int) for dim in value.dims)


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
