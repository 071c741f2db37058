"""ESP279: the window of inputs contains the value that is to be predicted."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import INFERRED, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function


class TargetInWindow(FileRule):
    """A data set of windows whose last input is the target.

    ## Why it costs
    `series[i : i + n + 1]` ends with `series[i + n]`. If that is the target as well, the model copies its last input:
    the error is almost zero in training and in the test, and the model predicts nothing.

    ## When it is right
    A window that is to be encoded and not continued. Only windows and targets are reported that come from the same
    sequence and are returned together.

    ## Sources
    Kaufman et al., "Leakage in Data Mining: Formulation, Detection, and Avoidance", section 3.
    """

    code, name = "ESP279", "target-in-window"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "from torch.utils.data import Dataset\n"
        "\n"
        "\n"
        "class Windows(Dataset):\n"
        "    def __init__(self, series, length):\n"
        "        self.series, self.length = series, length\n"
        "\n"
        "    def __getitem__(self, i):\n"
        "        x = self.series[i : i + self.length + 1]\n"
        "        y = self.series[i + self.length]\n"
        "        return x, y\n"
    )
    good = bad.replace("i + self.length + 1]", "i + self.length]")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the windows whose last element is the target."""
        if "[" not in file.text:
            return
        for function in file.functions:
            if function.is_module:
                continue
            windows = list(_taken(function, is_window=True))
            for window in windows:
                for target in _taken(function, is_window=False):
                    base, upper = _window(window.value)
                    other, at = _element(target.value)
                    if base and base == other and upper is not None and at is not None and _is_next(upper, at):
                        if not _go_together(window, target, function):
                            continue
                        yield self.hit(
                            window.value,
                            f"this window ends with `{ast.unparse(target.value)}`, which is the target "
                            f"{target.target!r} (line {target.line})",
                            remedy="end the window one element earlier",
                            confidence=Confidence.MODERATE,
                            basis=f"{INFERRED}: what is returned with the window is its target",
                        )


def _taken(function: Function, *, is_window: bool) -> Iterator[Assignment]:
    """Yield the assignments of windows, or of single elements, to names."""
    for path, assignments in function.assignments.items():
        if path.isidentifier() and len(assignments) == 1 and not assignments[0].is_augmented:
            made = assignments[0]
            found = _window(made.value)[0] if is_window else _element(made.value)[0]
            if found and not isinstance(made.statement, ast.For):
                yield made


def _window(node: ast.expr) -> tuple[str, ast.expr | None]:
    """Return the sequence and the end of a slice along its first axis."""
    match node:
        case ast.Subscript(value=base, slice=ast.Slice(lower=ast.expr(), upper=ast.expr() as upper, step=None)):
            return dotted(base), upper
        case _:
            return "", None


def _element(node: ast.expr) -> tuple[str, ast.expr | None]:
    """Return the sequence and the index of an element along its first axis."""
    match node:
        case ast.Subscript(value=base, slice=ast.BinOp() as at):
            return dotted(base), at
        case ast.Subscript(value=base, slice=ast.Tuple(elts=[ast.BinOp() as at, *_])):
            return dotted(base), at
        case _:
            return "", None


def _is_next(upper: ast.expr, at: ast.expr) -> bool:
    """Return whether a slice ends right behind an index."""
    one, two = _linear(upper), _linear(at)
    if one is None or two is None:
        return False
    one.subtract(two)
    return {name: count for name, count in one.items() if count} == {"": 1}


def _linear(node: ast.expr, sign: int = 1) -> Counter[str] | None:
    """Return an expression as names and a number that are added up; the number has no name."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            one = _linear(left, sign)
            two = _linear(right, sign if isinstance(operator, ast.Add) else -sign)
            if one is None or two is None:
                return None
            one.update(two)
            return one
        case ast.Constant(value=int(number)):
            return Counter({"": sign * number})
        case ast.Name() | ast.Attribute() if dotted(node):
            return Counter({dotted(node): sign})
        case _:
            return None


def _go_together(window: Assignment, target: Assignment, function: Function) -> bool:
    """Return whether a window and an element are returned, or kept, together."""
    names = {window.target, target.target}
    for statement, _ in function.returns:
        used = {each.id for each in walk(statement) if isinstance(each, ast.Name)}
        if names <= used and isinstance(statement.value, ast.Tuple | ast.Dict):
            return True
    kept = {
        each.id
        for call in function.calls
        if call.tail == "append" and call.block is window.block
        for each in walk(call.node)
        if isinstance(each, ast.Name)
    }
    return names <= kept
