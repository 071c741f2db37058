"""ESP244: an expanded tensor, whose rows share memory, is written in place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_EXPANDING = frozenset({"expand", "expand_as", "broadcast_to"})
_FUNCTIONS = frozenset({"torch.broadcast_to"})
# In-place methods that write no element.
_NO_WRITES = frozenset({"requires_grad_", "detach_", "squeeze_", "unsqueeze_", "t_", "transpose_", "share_memory_"})


class WrittenThroughExpand(Rule):
    """A tensor made by `expand` that is written in place, by an index or a method with an underscore.

    ## Why it costs
    `expand` copies nothing: all rows are the same memory. `x[0] = 1` changes every row in silence, and `x.add_(1)`
    raises "more than one element of the written-to tensor refers to a single memory location".

    ## When it is right
    A copy is made first: `x.expand(n, -1).clone()` or `x.repeat(n, 1)`.

    ## Sources
    PyTorch documentation of `torch.Tensor.expand`: "more than one element of an expanded tensor may refer to a single
    memory location ... If you need to write to the tensors, please clone them first."
    """

    code, name = "ESP244", "written-through-expand"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def starts(n, first):\n"
        "    tokens = torch.zeros(1, 4).expand(n, 4)\n"
        "    tokens[0] = first\n"
        "    return tokens\n"
    )
    good = bad.replace("expand(n, 4)", "expand(n, 4).clone()")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the writes to tensors that `expand` has made."""
        functions = {call.function for call in file.calls_ending(*sorted(_EXPANDING))}
        for function in (each for each in file.functions if each in functions):
            for path, node in _writes(function):
                made = index.origins(ast.Name(path, ast.Load()), function, node.lineno)
                if made and all(_is_expanded(each.value, each.function) for each in made):
                    yield self.hit(
                        node,
                        f"{path!r} was made by `expand`: its rows are one piece of memory, so this changes all of them "
                        "or raises",
                        remedy="add `.clone()` after `expand(...)`",
                        basis=SEEN,
                    )


def _writes(function: Function) -> Iterator[tuple[str, ast.stmt | ast.expr]]:
    """Yield the names whose elements a function writes in place, with the place."""
    for path, assignments in function.assignments.items():
        if path.endswith("[]") and path[:-2].isidentifier():
            yield from ((path[:-2], each.statement) for each in assignments)
    for call in function.calls:
        is_method = call.tail.endswith("_") and not call.tail.startswith("_") and call.tail not in _NO_WRITES
        if is_method and call.receiver.isidentifier():
            yield call.receiver, call.node


def _is_expanded(value: ast.expr, function: Function) -> bool:
    if not isinstance(value, ast.Call):
        return False
    if resolve(dotted(value.func), function) in _FUNCTIONS:
        return True
    return isinstance(value.func, ast.Attribute) and value.func.attr in _EXPANDING and _grows(value)


def _grows(value: ast.Call) -> bool:
    """Return whether an `expand` is given a size that is not -1 or 1, so that rows may share memory."""
    return not value.args or any(
        not (isinstance(each, ast.UnaryOp) or (isinstance(each, ast.Constant) and each.value == 1))
        for each in value.args
    )
