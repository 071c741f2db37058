"""Which expressions are tensors, and which of them come from a model or a loss."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.devices import made_by
from esper_agents.review.host_batches import names_loader
from esper_agents.review.index import argument_for, resolve
from esper_agents.review.inputs import is_said_to_be_tensor, is_tensor, takes_inputs
from esper_agents.review.models import forward_calls
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import wrapped
from esper_agents.review.patterns import pattern
from esper_agents.review.unpacked import values_returned
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Function

_LETTING_GO = frozenset(
    {"item", "tolist", "numpy", "size", "numel", "dim", "stride", "detach", "cpu_count", "is_available"}
)
_NO_TENSORS = (
    "torch.cuda.",
    "torch.distributed.",
    "torch.utils.",
    "torch.load",
    "torch.device",
    "torch.get",
)
_LOSS = pattern(r"(?:\w+_)?(?:criterion|loss|loss_fn|loss_func|loss_function|crit)(?:_\w+)?")
_LOSSES = pattern(r"(?:\w+_)?(?:cross_entropy(?:_with_logits)?|kl_div|with_logits|nll|bce|mse)")
# Methods that only tensors and distributions have.
_OF_TENSORS = frozenset({"detach", "cpu", "cuda", "unsqueeze", "softmax", "log_softmax", "argmax", "backward", "clamp"})
_OF_DISTRIBUTIONS = frozenset({"log_prob", "rsample", "entropy"})
_SUMMING = frozenset({"sum", "max", "min", "list", "tuple", "reversed", "sorted"})
_TO_TENSOR = frozenset({"to_tensor", "pil_to_tensor", "ToTensor"})


class Tensors:
    """Which expressions of a function are tensors, as they stand at a line."""

    def __init__(self, function: Function, line: int, index: ProjectIndex) -> None:
        self._function = function
        self._line = line
        self._index = index
        self._calls = {call.node: call for call in function.calls}
        self._forwards = {forward_call.node for forward_call in forward_calls(function.file, index)}

    def holds(self, node: ast.expr, steps: int = 6) -> str:  # noqa: C901 - one case for each kind of expression
        """Return what an expression is, as far as that can be told.

        Returns:
            `graph` for a tensor that comes from a model or a loss, `data` for another tensor, `list` for a list that
            holds one with a graph, and nothing where that cannot be told.
        """
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                found = "list" if any(self._is_part_with_graph(each, steps) for each in parts) else ""
            case ast.Dict(values=parts):
                found = "list" if any(self.holds(each, steps) == "graph" for each in parts) else ""
            case ast.IfExp(body=body, orelse=orelse):
                found = _stronger([self.holds(body, steps), self.holds(orelse, steps)])
            case ast.ListComp(elt=part, generators=[over, *_]) | ast.GeneratorExp(elt=part, generators=[over, *_]):
                is_copied = isinstance(part, ast.Name) and dotted(over.target) == part.id
                is_list = is_copied and self.holds(over.iter, steps) == "list"
                found = "list" if is_list or self.holds(part, steps) == "graph" else ""
            case ast.BinOp(left=left, right=right):
                found = _stronger([self.holds(left, steps), self.holds(right, steps)])
            case ast.UnaryOp(operand=part):
                found = self.holds(part, steps)
            case ast.Subscript(value=part) if steps:
                found = self.holds(part, steps - 1)
                found = "" if found == "list" else found
            case ast.Attribute(value=ast.Call() as part, attr="values" | "indices" | "T" | "logits") if steps:
                found = self.holds(part, steps - 1)
            case ast.Name() | ast.Attribute() if steps:
                found = self._named(node, steps - 1)
            case ast.Call():
                found = self._made(node, steps)
            case _:
                found = ""
        return found

    def _is_part_with_graph(self, part: ast.expr, steps: int) -> bool:
        """Return whether a part of a list carries a graph, or the list that is spread in its place does."""
        if isinstance(part, ast.Starred):
            return self.holds(part.value, steps) == "list"
        return self.holds(part, steps) == "graph"

    def _named(self, node: ast.Name | ast.Attribute, steps: int) -> str:
        path = dotted(node)
        found = self._index.bindings(path, self._function, self._line)
        if path in self._function.parameters and not found.assignments:
            return "data" if self._is_tensor_parameter(path) else self._handed_over(path, steps)
        kinds = [self._bound(assignment, steps) for assignment in found.assignments] if found.is_whole else []
        if kinds and all(kinds):
            return "list" if "list" in kinds else _stronger(kinds)
        return "list" if self._is_filled_with_graphs(path, steps) else ""

    def _is_filled_with_graphs(self, path: str, steps: int) -> bool:
        """Return whether all that is appended to a list, or put into a dictionary, carries a graph."""
        owner = owner_of(self._function) if path.startswith("self.") else None
        functions = list(owner.methods.values()) if owner is not None else [self._function]
        values = [
            (call.node.args[0], call.function, call.line)
            for each in functions
            for call in each.calls
            if call.receiver == path and call.tail == "append" and call.node.args
        ]
        values += [
            (found.value, each, found.line) for each in functions for found in each.assignments.get(f"{path}[]", ())
        ]
        return bool(values) and all(
            self._at(function, line).holds(value, steps) == "graph" for value, function, line in values
        )

    def _at(self, function: Function, line: int) -> Tensors:
        return self if function is self._function else Tensors(function, line, self._index)

    def _handed_over(self, parameter: str, steps: int) -> str:
        """Return what all callers hand to a parameter."""
        calls = self._index.callers(self._function) if steps > 1 else ()
        handed = [(call, argument_for(call, self._function, parameter)) for call in calls]
        kinds = [
            self._at(call.function, call.line).holds(value, steps - 2) if value is not None else ""
            for call, value in handed
        ]
        return _stronger(kinds) if kinds and all(kinds) and "list" not in kinds else ""

    def _bound(self, found: Assignment, steps: int) -> str:
        if isinstance(found.statement, ast.For | ast.AsyncFor):
            return "data" if _is_batch(found) else ""
        is_tuple = found.is_unpacked and not isinstance(found.value, ast.Call | ast.Name)
        kind = "" if is_tuple else self._at(found.block.function, found.line).holds(found.value, steps)
        return "" if kind == "list" and found.is_unpacked else kind

    def _is_tensor_parameter(self, name: str) -> bool:
        is_annotated = is_said_to_be_tensor(name, self._function)
        return is_annotated or (
            takes_inputs(self._function, self._index) and is_tensor(name, self._function, self._index)
        )

    def _made(self, node: ast.Call, steps: int) -> str:
        name = resolve(dotted(node.func), self._function)
        tail = tail_of(name)
        found = ""
        if tail == "detach" and isinstance(node.func, ast.Attribute):
            found = "data"
        elif tail in _LETTING_GO or name.startswith(_NO_TENSORS):
            pass
        elif self._runs_model(node, tail):
            call = self._calls.get(node)
            found = "data" if call is not None and without_gradients(call.block) else "graph"
        elif tail in _TO_TENSOR or self._transforms_to_tensor(node.func):
            found = "data"
        elif name in _SUMMING and node.args:
            found = self._summed(name, node.args[0], steps)
        elif name.startswith("torch.") and "(" not in name:
            found = _stronger(["data", *(self.holds(arg, steps) for arg in node.args)])
        elif isinstance(node.func, ast.Attribute) and steps:
            found = self._of_method(node.func, steps)
        return found or (self._given_back(node, steps - 2) if steps > 1 else "")

    def _given_back(self, node: ast.Call, steps: int) -> str:
        """Return what every `return` of the function of these files gives that a call surely reaches."""
        given = list(values_returned(node, self._function, self._index))
        kinds = [self._at(each.function, each.line).holds(each.value, steps) for each in given]
        if given and all(
            kind == "list" and not isinstance(each.value, ast.Tuple) for kind, each in zip(kinds, given, strict=True)
        ):
            return "list"
        return _stronger(kinds) if kinds and all(kinds) and "list" not in kinds else ""

    def _summed(self, name: str, given: ast.expr, steps: int) -> str:
        """Return what the sum of a list is, or another list of its values."""
        found = self.holds(given, steps)
        return "graph" if found == "list" and name in {"sum", "max", "min"} else found

    def _of_method(self, called: ast.Attribute, steps: int) -> str:
        """Return what a method gives: a tensor of a tensor, and the list of what a dictionary holds."""
        found = self.holds(called.value, steps - 1)
        if found == "list" and called.attr != "values":
            return ""
        return found or ("data" if called.attr in _OF_TENSORS else "")

    def _runs_model(self, node: ast.Call, tail: str) -> bool:
        """Return whether a call surely gives something with a graph: of a model, a layer, a loss or a distribution."""
        if node in self._forwards or self._is_layer(node) or dotted(node.func) in {"self", "self.forward"}:
            return True
        if isinstance(node.func, ast.Attribute) and tail in _OF_DISTRIBUTIONS:
            return True
        return (_LOSS.fullmatch(tail) or _LOSSES.fullmatch(tail)) is not None and len(node.args) + len(
            node.keywords
        ) > 1

    def _is_layer(self, node: ast.Call) -> bool:
        """Return whether a call runs a layer of torch that a name or an attribute holds."""
        found = self._index.binding(dotted(node.func), self._function, self._line)
        value = wrapped(found.value) or found.value if found is not None and not found.is_unpacked else None
        made = made_by(value, self._function) if value is not None else ""
        return made.startswith("torch.nn.") and not made.startswith("torch.nn.functional.")

    def _transforms_to_tensor(self, called: ast.expr) -> bool:
        """Return whether a call applies transforms of torchvision that end in a tensor."""
        found = self._index.binding(dotted(called), self._function, self._line)
        return found is not None and not found.is_unpacked and "ToTensor" in ast.unparse(found.value)


def _stronger(kinds: list[str]) -> str:
    """Return what a calculation with several values makes: a graph goes on, and a tensor makes tensors."""
    return next((kind for kind in ("graph", "data") if kind in kinds), "")


def _is_batch(found: Assignment) -> bool:
    """Return whether a loop over a loader binds a batch, or a part of one: not the number of `enumerate`."""
    statement, over = found.statement, found.value
    if not isinstance(statement, ast.For | ast.AsyncFor) or not names_loader(over) or not found.target.isidentifier():
        return False
    called = dotted(over.func) if isinstance(over, ast.Call) else ""
    is_number = isinstance(statement.target, ast.Tuple) and statement.target.elts[0] is found.node
    return tail_of(called) != "range" and not (tail_of(called) == "enumerate" and is_number)
