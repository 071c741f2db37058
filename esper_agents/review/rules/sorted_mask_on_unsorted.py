"""ESP294: a mask that was made in sorted order is applied to what is not sorted."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import names_in
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_FILLS = frozenset({"masked_fill", "masked_fill_", "masked_select"})
# What makes one number of a row, so that nothing is in any order any more.
_REDUCING = frozenset(
    {"sum", "any", "all", "item", "argmax", "max", "min", "searchsorted", "gather", "scatter", "mean"}
)


class SortedMaskOnUnsorted(FileRule):
    """A mask computed from sorted values, such as the tail of a top-p cut, that masks the values before sorting.

    ## Why it costs
    The mask says which places of the sorted row go. Applied to the row as it was, it removes other entries: a top-p
    filter then keeps the first tokens of the vocabulary, whatever the model says. The shapes fit, and nothing raises.

    ## When it is right
    The mask is put back by the indices of the sort (`mask.scatter(-1, order, mask)`), or applied to the sorted values.
    A threshold taken from the sorted values, against which the unsorted ones are compared, is no such mask.

    ## Sources
    PyTorch documentation of `torch.sort`, which returns the indices for this, and of `torch.Tensor.scatter_`.
    """

    code, name = "ESP294", "sorted-mask-on-unsorted"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def top_p(logits, p):\n"
        "    values, order = torch.sort(logits, dim=-1, descending=True)\n"
        "    drop = values.softmax(-1).cumsum(-1) > p\n"
        '    return logits.masked_fill(drop, float("-inf"))\n'
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def top_p(logits, p):\n"
        "    values, order = torch.sort(logits, dim=-1, descending=True)\n"
        "    drop = values.softmax(-1).cumsum(-1) > p\n"
        '    return logits.masked_fill(drop.scatter(-1, order, drop), float("-inf"))\n'
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the uses of masks in the order of a sort on what was sorted."""
        for call in file.calls_ending("sort"):
            names = _sorted_names(call)
            source = dotted(_sorted(call)) if names else ""
            if not source or "(" in source:
                continue
            for node, mask in _masked(source, call):
                if _is_in_order(mask, names, source, call.function):
                    yield self.hit(
                        node,
                        f"this mask is in the order of the sort (line {call.line}), and {source!r} is not: other "
                        "entries are masked than are meant",
                        remedy=f"put the mask back first: `mask.scatter(-1, {names[1]}, mask)`",
                        confidence=Confidence.HIGH,
                        basis=SEEN,
                    )


def _sorted_names(call: Call) -> list[str]:
    """Return the names that the values and the indices of a sort are bound to; none if it is of another form."""
    statement = call.statement
    is_whole = isinstance(statement, ast.Assign) and statement.value is call.node
    target = statement.targets[0] if is_whole and isinstance(statement, ast.Assign) else None
    parts = target.elts if isinstance(target, ast.Tuple) else []
    names = [each.id for each in parts if isinstance(each, ast.Name)]
    return names if len(names) == len(parts) == 2 else []  # noqa: PLR2004 - the values and the indices


def _sorted(call: Call) -> ast.expr:
    if call.receiver == "torch":
        return call.argument(0, "input") or ast.Constant(None)
    return call.node.func.value if isinstance(call.node.func, ast.Attribute) else ast.Constant(None)


def _masked(source: str, sort: Call) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield where what was sorted is masked afterwards, as it was, with the mask."""
    function = sort.function
    renewed = [each.line for each in function.assignments.get(source, ()) if each.line >= sort.line]
    for call in function.calls:
        if call.line <= sort.line or any(line < call.line for line in renewed):
            continue
        is_filled = call.tail in _FILLS and call.receiver == source and bool(call.node.args)
        if is_filled or (call.name == "torch.where" and source in map(dotted, call.node.args[1:])):
            yield call.node, call.node.args[0]
    for each in function.assignments.get(f"{source}[]", ()):
        if isinstance(each.node, ast.Subscript) and each.line > sort.line and not any(n < each.line for n in renewed):
            yield each.statement, each.node.slice


def _is_in_order(mask: ast.expr, names: list[str], source: str, function: Function) -> bool:
    """Return whether a mask is made by running sums and comparisons of sorted values alone."""
    values, order = names
    reached, parts = {values}, [mask]
    for part in parts:
        for name in sorted(names_in(part)):
            if name in reached:
                continue
            reached.add(name)
            parts += [each.value for path in (name, f"{name}[]") for each in function.assignments.get(path, ())]
    called = {tail_of(dotted(each.func)) for part in parts for each in walk(part) if isinstance(each, ast.Call)}
    compares = any(isinstance(each, ast.Compare) for part in parts for each in walk(part))
    is_read = any(values in names_in(part) or f"{values}.cumsum" in names_in(part) for part in parts)
    roots = {name.partition(".")[0].removesuffix("[]").removesuffix("()") for name in reached}
    is_apart = not ({order, source.partition(".")[0]} & (roots | reached))
    return compares and "cumsum" in called and not called & _REDUCING and is_apart and (is_read or values in roots)
