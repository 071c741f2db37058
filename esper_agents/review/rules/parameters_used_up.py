"""ESP227: an iterator over parameters is used a second time, when it is empty."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import are_alternatives
from esper_agents.review.host_batches import names_loader
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Class, FileTables, Function

_MAKING = frozenset({"parameters", "named_parameters"})
_READING = frozenset({"list", "tuple", "set", "dict", "sum", "any", "all", "max", "min", "sorted", "filter", "map"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "get_total_norm"})


class ParametersUsedUp(FileRule):
    """An iterator of `model.parameters()` that is used a second time.

    ## Why it costs
    `parameters()` returns a generator, which ends after one use. Gradient clipping that is given the same generator
    in every step clips in the first step only, a second optimizer raises on an empty list, and a count or a freeze
    over it does nothing. Only the optimizer raises; the rest is silent. So is `iter(loader)` made before the loop over
    epochs: from the second epoch on there is no batch.

    ## When it is right
    `list(model.parameters())`, or `model.parameters()` called again where it is needed. A generator that one place
    uses once is not reported, nor are uses of which only one runs.

    ## Sources
    PyTorch documentation of `torch.nn.Module.parameters`: it returns an iterator. Python reference, on generators.
    """

    code, name = "ESP227", "parameters-used-up"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "params = model.parameters()\n"
        "optimizer = torch.optim.Adam(list(model.parameters()))\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    torch.nn.functional.mse_loss(model(x), y).backward()\n"
        "    torch.nn.utils.clip_grad_norm_(params, 1.0)\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("params = model.parameters()", "params = list(model.parameters())")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the uses of generators of parameters that find them empty."""
        for function in file.functions:
            for path, assignments in function.assignments.items():
                if "." not in path and len(assignments) == 1 and _is_generator(assignments[0]):
                    yield from self._in_function(path, assignments[0], function)
                elif len(assignments) == 1 and _is_of_batches(assignments[0]):
                    yield from self._of_batches(path, assignments[0], function)
        for cls in file.classes:
            for path, assignments in cls.attributes.items():
                if path.startswith("self.") and len(assignments) == 1 and _is_generator(assignments[0]):
                    yield from self._in_class(path, assignments[0], cls)

    def _in_function(self, path: str, made: Assignment, function: Function) -> Iterator[RuleMatch]:
        uses = [(node, block) for node, block in _uses(path, function) if node.lineno > made.line]
        for place, (node, block) in enumerate(uses):
            first = next((each for each, other in uses[:place] if not are_alternatives(other, block)), None)
            repeated = next((loop for loop in block.loops() if not made.block.within(loop)), None)
            if first is None and (repeated is None or _leaves(node, block)):
                continue
            why = f"line {first.lineno} has used it up" if first is not None else "the first round uses it up"
            yield self._found(node, path, made, why)
            return

    def _of_batches(self, path: str, made: Assignment, function: Function) -> Iterator[RuleMatch]:
        """Yield the loop over an iterator of batches that a loop around it runs again."""
        for block in function.blocks:
            node, around = block.node, block.parent.loop if block.parent is not None else None
            if not isinstance(node, ast.For) or around is None or made.block.within(around):
                continue
            given = node.iter.args[0] if _is_shown(node.iter) and isinstance(node.iter, ast.Call) else node.iter
            leaves = any(isinstance(each, ast.Break | ast.Return) for each in walk(node))
            if dotted(given) == path and node.lineno > made.line and not leaves:
                yield self.hit(
                    node.iter,
                    f"{path!r} is an iterator (line {made.line}) that the first round uses up: from the second on "
                    "there is no batch",
                    remedy=f"go over `{ast.unparse(made.value)}` here",
                    basis=SEEN,
                )
                return

    def _in_class(self, path: str, made: Assignment, cls: Class) -> Iterator[RuleMatch]:
        uses = [(node, block) for method in cls.methods.values() for node, block in _uses(path, method)]
        first = next((node for node, block in uses if block.function is made.block.function), None)
        for node, block in uses:
            if block.function is made.block.function:
                continue
            if first is not None:
                yield self._found(node, path, made, f"line {first.lineno} has used it up")
                return
            if any(call.tail in {"backward", "step"} for call in block.function.calls):
                yield self._found(node, path, made, f"the first call of {block.function.name!r} uses it up")
                return

    def _found(self, node: ast.expr, path: str, made: Assignment, why: str) -> RuleMatch:
        return self.hit(
            node,
            f"{path!r} is a generator of parameters (line {made.line}) and empty here, because {why}",
            remedy=f"write `{path} = list({ast.unparse(made.value)})`",
            basis=SEEN,
        )


def _is_generator(made: Assignment) -> bool:
    """Return whether an assignment binds a generator of parameters."""
    return not made.is_augmented and not made.is_unpacked and _is_iterator(made.value)


def _is_of_batches(made: Assignment) -> bool:
    """Return whether an assignment binds an iterator over a loader: `iter(loader)`, `enumerate(loader)`."""
    value = made.value
    is_plain = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and not made.is_unpacked
    if not is_plain or made.is_augmented or not isinstance(value, ast.Call):
        return False
    return dotted(value.func) in {"iter", "enumerate", "zip"} and any(names_loader(each) for each in value.args)


def _is_shown(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and tail_of(dotted(value.func)) in {"tqdm", "enumerate"} and bool(value.args)


def _is_iterator(value: ast.expr) -> bool:
    if isinstance(value, ast.GeneratorExp):
        return _is_iterator(value.generators[0].iter)
    if not isinstance(value, ast.Call):
        return False
    tail = tail_of(dotted(value.func))
    if isinstance(value.func, ast.Name) and tail in {"filter", "map"} and len(value.args) > 1:
        return _is_iterator(value.args[1])
    return isinstance(value.func, ast.Attribute) and tail in _MAKING and not value.args


def _uses(path: str, function: Function) -> list[tuple[ast.expr, Block]]:
    """Return the places of a function that iterate over a path to its end, in order."""
    found: list[tuple[ast.expr, Block]] = []
    for call in function.calls:
        is_plain = isinstance(call.node.func, ast.Name) and call.tail in _READING
        if is_plain or call.tail in _CLIPPING or call.name.startswith("torch.optim."):
            found += [(arg, call.block) for arg in _given(call.node) if dotted(arg) == path]
    for block in function.blocks:
        node = block.node
        parts = (
            node.generators[:1] if isinstance(node, _COMPREHENSIONS) else [node] if isinstance(node, ast.For) else []
        )
        found += [(each.iter, block.parent) for each in parts if dotted(each.iter) == path and block.parent is not None]
    return sorted(found, key=lambda each: (each[0].lineno, each[0].col_offset))


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in {"params", "parameters"})]


def _leaves(node: ast.expr, block: Block) -> bool:
    """Return whether the loop around a use ends right after it."""
    body = getattr(block.node, "body", [])
    later = [each for each in body if each.lineno > node.lineno]
    return any(isinstance(each, ast.Break | ast.Return | ast.Raise) for each in later)
