"""What loops go over, as far as these surely are tensors."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.conditions import names_in
from esper_agents.review.definitions import owner_of
from esper_agents.review.fetches import device_values
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.sample_loops import annotation_of, may_be_list, overs

if TYPE_CHECKING:
    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.sample_loops import Over
    from esper_agents.review.tables import Call, Function

# Functions that work on whole tensors as on their elements.
ELEMENTWISE = frozenset(
    {"abs", "add", "bool", "clamp", "clip", "cos", "detach", "dist", "div", "dot", "exp", "expm1", "flatten", "float"}
    | {"item", "kl_div", "l1_loss", "log", "log1p", "log_softmax", "long", "matmul", "max", "maximum", "mean", "min"}
    | {"minimum", "mm", "mse_loss", "mul", "mv", "norm", "outer", "pow", "relu", "reshape", "rsqrt", "sigmoid", "sign"}
    | {"sin", "smooth_l1_loss", "softmax", "softplus", "sqrt", "square", "squeeze", "std", "sub", "sum", "t", "tanh"}
    | {
        "tensor",
        "to",
        "unsqueeze",
        "var",
        "view",
        "where",
        "binary_cross_entropy",
        "cosine_similarity",
        "cross_entropy",
        "vector_norm",
        "inner",
        "reciprocal",
        "logsumexp",
        "prod",
        "logical_and",
        "atan2",
        "hypot",
        "pairwise_distance",
    }
)
_FACTORIES = frozenset(
    {"zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "rand", "randn"}
    | {"randn_like", "rand_like", "new_zeros", "new_ones", "new_empty", "new_full", "clone"}
)
_JOINING = frozenset({"torch.stack", "torch.cat", "torch.vstack", "torch.hstack"})
_TENSOR_USES = frozenset(
    {"size", "to", "cuda", "view", "permute", "unsqueeze", "detach", "requires_grad_", "dim", "contiguous", "backward"}
    | {"new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "numel"}
)
# A pair of tensors is picked apart as well; who picks more takes the numbers of a row.
_FEW_PICKED = 2
# Few by their name, and a list more often than a tensor.
_FEW = pattern(r"(?:\w+_)?(?:layers?|models?|losses|heads|levels|outputs|features?_maps|scales|anchors|sizes)")


class Gone:
    """What the loops round a block go over, as far as these are axes or elements of tensors.

    Attributes:
        inner: Of the innermost loop.
        all: Of all of them.
        depth: How many such loops there are.
        counters: The names that count their rounds.
        elements: The names that hold the innermost loop's elements.
        is_sure: Whether one of them surely is a tensor.
    """

    def __init__(self, block: Block, index: ProjectIndex) -> None:
        self._index = index
        self._block = block
        self._function: Function = block.function
        self._line: int = block.node.lineno  # type: ignore[attr-defined]
        loops = [block, *(each for each in block.loops() if each is not block)]
        found = [[over for over in overs(loop) if self._is_tensor(over)] for loop in loops]
        self.inner: list[Over] = found[0]
        self.all = [each for group in found for each in group]
        self.depth = sum(1 for group in found if group)
        self.counters = {each.counter for each in self.all} - {""}
        self.elements = {each.element for each in self.inner} - {""}
        self.is_sure = any(each.is_tensor or self._is_known(each.path) for each in self.all)

    def _is_tensor(self, over: Over) -> bool:
        if (
            not over.path
            or "[" in over.path
            or (_FEW.fullmatch(tail_of(over.path)) and over.path not in self._function.parameters)
        ):
            return False
        if over.is_tensor:
            return True
        if over.element:
            is_surely = (
                self._is_surely(over.path) or self._asks_for_item(over.element) or self._is_row(over.path, over.element)
            )
            return is_surely and not may_be_list(over.path, self._block)
        if self._is_known(over.path, is_array=over.has_shape):
            return True
        return (over.has_shape or self._is_indexed_as_array(over.path)) and self._fills_a_tensor()

    def _is_indexed_as_array(self, path: str) -> bool:
        """Return whether the loop picks from a path by several indices at once, as no list allows: `a[i, 2]`."""
        return any(
            isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Tuple) and dotted(each.value) == path
            for each in walk(self._block.node)
        )

    def _fills_a_tensor(self) -> bool:
        """Return whether the loop writes into a tensor that the function made."""
        return any(
            target.endswith("[]") and any(assignment.block.within(self._block) for assignment in assignments)
            for target, assignments in self._function.assignments.items()
            if makes_tensor(target.rstrip("[]"), self._function, 1 << 30)
        )

    def _asks_for_item(self, element: str) -> bool:
        """Return whether the loop turns its element into a number by `.item()`, and gathers no list, as lists do."""
        inside = [call for call in self._function.calls if call.block.within(self._block)]
        asks = any(each.receiver == element and each.tail == "item" for each in inside)
        return asks and not any(each.tail in {"append", "extend"} for each in inside)

    def _is_row(self, path: str, element: str) -> bool:
        """Return whether torch computes with an element of what elsewhere is asked for its shape, or picks its numbers.

        Only tensors are both: torch takes no rows of arrays, and a list has no shape.
        """
        if not self._is_computed_with(element):
            return False
        return f"{path}.shape" in self._read_paths() or self._is_picked_from(element)

    def _is_computed_with(self, element: str) -> bool:
        return any(
            call.block.within(self._block) and _takes_tensors(call) and element in names_in(argument)
            for call in self._function.calls
            for argument in call.node.args
        )

    def _is_picked_from(self, element: str) -> bool:
        """Return whether a loop takes several numbers out of its element: `box[0]`, `box[2]`."""
        picked = {
            each.slice.value
            for each in walk(self._block.node)
            if isinstance(each, ast.Subscript)
            and isinstance(each.slice, ast.Constant)
            and isinstance(each.slice.value, int)
            and dotted(each.value) == element
        }
        return len(picked) > _FEW_PICKED and self._is_gathered_to_a_tensor()

    def _is_surely(self, path: str) -> bool:
        """Return whether a path is a tensor by its annotation, by what made it, or by what only tensors can do."""
        made = self._made(path)
        if made.startswith("torch.") and tail_of(made) in (_FACTORIES | ELEMENTWISE | {"tensor", "stack", "cat"}):
            return True
        if tail_of(annotation_of(path, self._function)) == "Tensor":
            return True
        uses = {call.tail for call in self._function.calls if call.receiver == path}
        if uses & (_TENSOR_USES - {"to", "cuda"}):
            return True
        # The text first: to read all paths of a function takes long.
        return f"{path}.device" in self._function.file.text and f"{path}.device" in self._read_paths()

    def _read_paths(self) -> frozenset[str]:
        return self._index.once(("read paths", self._function), lambda: names_in(self._function.node))

    def _made(self, path: str) -> str:
        """Return the resolved path of what a path was last bound to; `[]` for a list."""
        last = self._function.last_assignment(path, self._line)
        if last is None or last.is_unpacked:
            return ""
        if isinstance(last.value, ast.List | ast.ListComp | ast.Dict):
            return "[]"
        return resolve(dotted(last.value), self._function)

    def _is_known(self, path: str, *, is_array: bool = False) -> bool:
        """Return whether a path is a tensor, also by what it is handed to, or because a model gave it back."""
        if self._made(path).startswith(("np.", "numpy.", "[]")):
            return False
        if self._is_surely(path) or self._is_used_as_tensor(path, is_array=is_array):
            return True
        known = device_values(self._function, self._index)
        return path.isidentifier() and known.holds(ast.Name(path, ast.Load()), self._line)

    def _is_used_as_tensor(self, path: str, *, is_array: bool) -> bool:
        if is_array and any(each.receiver == path and each.tail in {"to", "cuda"} for each in self._function.calls):
            return True
        takers = (each for each in self._function.calls if _takes_tensors(each))
        handed = [argument for call in takers for argument in call.node.args]
        if any(dotted(argument) == path for argument in handed):
            return True
        if is_array and any(dotted(operand) == f"{path}[]" for argument in handed for operand in _operands(argument)):
            return True
        if is_array and self._is_gathered_to_a_tensor():
            return True
        owner = owner_of(self._function)
        in_forward = owner is not None and self._function.name == "forward" and self._index.is_module(owner)
        return is_array and in_forward

    def _is_gathered_to_a_tensor(self) -> bool:
        """Return whether the loop appends to a list that torch then joins to one tensor."""
        calls = self._function.calls
        lists = {call.receiver for call in calls if call.tail == "append" and call.block.within(self._block)}
        return any(
            call.name in _JOINING and dotted(argument) in lists for call in calls for argument in call.node.args[:1]
        )


def _operands(value: ast.expr) -> list[ast.expr]:
    """Return the parts of a sum or a product, or the one value that it is."""
    if isinstance(value, ast.BinOp):
        return [*_operands(value.left), *_operands(value.right)]
    return [value]


def _takes_tensors(call: Call) -> bool:
    return call.name.startswith("torch.") and call.tail in (ELEMENTWISE | _FACTORIES | {"cdist", "bmm"})


def makes_tensor(path: str, function: Function, before: int) -> bool:
    """Return whether a path holds a tensor that the function made itself: `torch.zeros(...)`."""
    made = function.last_assignment(path, before)
    name = resolve(dotted(made.value), function) if made is not None else ""
    if name.endswith(".clone()"):
        return True
    return (name.startswith("torch.") or tail_of(name).startswith("new_")) and tail_of(name) in _FACTORIES
