"""ESP220: a forward makes a layer with weights and applies it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.values import without_gradients
from esper_agents.review.weighted_layers import is_weighted_layer, starts_fixed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_RUN_IN_EVERY_STEP = frozenset({"forward", "training_step"})
# Methods that return the layer itself.
_SAME = frozenset({"to", "cuda", "cpu", "float", "double", "half", "bfloat16", "train", "type"})
_RANDOM_START = pattern(r"torch\.nn\.init\.(?:xavier|kaiming|trunc_normal|normal|uniform|orthogonal)\w*")
# Layers that are random on purpose, such as random convolutions that augment images.
_ON_PURPOSE = pattern(r"(?i)rand|noise|augment|perturb")
_ONCE = pattern(r"(?i)cache|once|compute_on")
_CONDITIONAL = frozenset({BlockKind.IF, BlockKind.ELSE, BlockKind.TRY, BlockKind.EXCEPT, BlockKind.CASE})


class LayerMadeInForward(Rule):
    """A layer with weights that is made in `forward`, or in what it calls, and applied there.

    ## Why it costs
    Each call makes new weights. The optimizer was given the parameters of the module before and never gets these, so
    that nothing trains them; a random layer also gives other outputs for the same input each time, and no checkpoint
    holds it.

    ## When it is right
    The layer is random on purpose, as in an augmentation, or its weights are set by hand to a fixed filter: a layer
    whose weights are read or written, and one under `no_grad`, is not reported, nor one made once under a test.

    ## Sources
    PyTorch documentation of `torch.nn.Module`: parts are assigned as attributes in `__init__`.
    """

    code, name = "ESP220", "layer-made-in-forward"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Classifier(nn.Module):\n"
        "    def __init__(self, backbone):\n"
        "        super().__init__()\n"
        "        self.backbone = backbone\n"
        "\n"
        "    def forward(self, x):\n"
        "        features = self.backbone(x)\n"
        "        return nn.Linear(features.shape[-1], 10)(features)\n"
    )
    good = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Classifier(nn.Module):\n"
        "    def __init__(self, backbone, size):\n"
        "        super().__init__()\n"
        "        self.backbone = backbone\n"
        "        self.head = nn.Linear(size, 10)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.head(self.backbone(x))\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the layers that a forward makes and applies."""
        run = index.once("functions that forwards run", lambda: _run_by_forwards(index))
        for function in file.functions:
            if function in run:
                for layer in _applied(function, index):
                    yield self._found(layer, function)

    def _found(self, layer: ast.expr, function: Function) -> RuleMatch:
        is_forward = function.name in _RUN_IN_EVERY_STEP
        is_fixed = isinstance(layer, ast.Call) and starts_fixed(layer, function)
        shown = dotted(layer.func) if isinstance(layer, ast.Call) else "list of layers"
        effect = "stay as they are made" if is_fixed else "are new in each call"
        return self.hit(
            layer,
            f"this `{shown}` is made each time `{function.name}` runs: its weights {effect}, and no optimizer has them",
            remedy="make it in `__init__`, as an attribute of the module",
            confidence=Confidence.HIGH if is_forward else Confidence.MODERATE,
            basis=SEEN if is_forward else FOLLOWED,
            severity=Severity.WARNING if is_fixed else None,
        )


def _run_by_forwards(index: ProjectIndex) -> frozenset[Function]:
    """Return the forwards of modules and the functions that they surely call."""
    edge = [
        function
        for name in _RUN_IN_EVERY_STEP
        for function in index.functions.get(name, ())
        if function.owner is not None and index.is_module(function.owner)
    ]
    seen = dict.fromkeys(edge)
    while edge:
        called = {each for function in edge for call in function.calls for each in index.callees(call)}
        edge = [each for each in called if each not in seen and each.name != "__init__"]
        seen.update(dict.fromkeys(edge))
    return frozenset(each for each in seen if not _is_special(each))


def _is_special(function: Function) -> bool:
    owner = function.owner.name if function.owner is not None else ""
    is_random = _ON_PURPOSE.search(function.name) or _ON_PURPOSE.search(owner)
    return bool(is_random) or any(_ONCE.search(each) for each in function.decorators)


def _applied(function: Function, index: ProjectIndex) -> Iterator[ast.expr]:
    """Yield the layers that a function makes and runs."""
    for call in function.calls:
        if without_gradients(call.block) or not (call.node.args or call.node.keywords):
            continue
        inner = _layer_itself(call.node.func)
        if isinstance(inner, ast.Call) and is_weighted_layer(inner, function, index):
            yield inner
    for path, assignments in function.assignments.items():
        for found in assignments:
            inner = _layer_itself(found.value)
            if _makes_layers(inner, function, index) and _is_run_in_turn(path, found, function):
                yield inner
                continue
            if not isinstance(inner, ast.Call) or found.is_unpacked or not is_weighted_layer(inner, function, index):
                continue
            if not without_gradients(found.block) and _is_only_run(path, found, function):
                yield inner


def _makes_layers(value: ast.expr, function: Function, index: ProjectIndex) -> bool:
    """Return whether an expression makes a list of layers with weights: `nn.ModuleList([nn.Linear(8, 8)])`."""
    is_list = isinstance(value, ast.Call) and resolve(dotted(value.func), function) == "torch.nn.ModuleList"
    held = value.args[0] if is_list and isinstance(value, ast.Call) and value.args else value
    match held:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return any(is_weighted_layer(_layer_itself(each), function, index) for each in elements)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return is_weighted_layer(_layer_itself(element), function, index)
        case _:
            return False


def _is_run_in_turn(path: str, found: Assignment, function: Function) -> bool:
    """Return whether the elements of a list are run, by index or by a loop, and the list is used for nothing else."""
    loops = [block.node for block in function.blocks if isinstance(block.node, ast.For)]
    loops = [node for node in loops if dotted(node.iter) == path]
    targets = {dotted(node.target) for node in loops}
    runs = [call for call in function.calls if call.path == f"{path}[]" or call.path in targets]
    reads = sum(1 for _ in _reads(path, function))
    by_index = sum(1 for call in function.calls if call.path == f"{path}[]")
    return path.isidentifier() and found.block is function.block and bool(runs) and reads == len(loops) + by_index


def _layer_itself(value: ast.expr) -> ast.expr:
    """Return what `layer.to(device)` is called on, and the value itself without such calls."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SAME:
        value = value.func.value
    return value


def _is_only_run(path: str, found: Assignment, function: Function) -> bool:
    """Return whether a layer bound to a path is run in the function, and neither set, kept nor passed on."""
    is_attribute = path.startswith("self.")
    may_be_once = function.name not in _RUN_IN_EVERY_STEP or any(
        each.kind in _CONDITIONAL for each in found.block.chain()
    )
    if "[" in path or (is_attribute and may_be_once):
        return False
    if any(call.path == path and call.line >= found.line for call in function.calls):
        runs = {call.node.func for call in function.calls if call.path == path}
        return all(_is_harmless(node, runs, function) for node in _reads(path, function))
    return False


def _reads(path: str, function: Function) -> Iterator[ast.AST]:
    for node in walk(function.node):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and dotted(node) == path:
            yield node


def _is_harmless(node: ast.AST, runs: set[ast.expr], function: Function) -> bool:
    """Return whether a use of a layer runs it, moves it or fills it with random numbers."""
    if node in runs:
        return True
    return any(_uses(call, node, function) for call in function.calls)


def _uses(call: Call, node: ast.AST, function: Function) -> bool:
    func = call.node.func
    if isinstance(func, ast.Attribute) and func.value is node:
        return func.attr in _SAME
    is_filling = _RANDOM_START.fullmatch(resolve(call.path, function)) is not None
    return is_filling and any(isinstance(arg, ast.Attribute) and arg.value is node for arg in call.node.args)
