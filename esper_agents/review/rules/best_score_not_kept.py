"""ESP247: the best score so far is never updated, starts on the wrong side, or starts again in each round."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import tests_around
from esper_agents.review.definitions import owner_of
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

_KEEPING = pattern(r"(?:save|deepcopy|state_dict|save_\w+|\w*save_checkpoint|\w*save_model|checkpoint|dump|store_\w+)")
_BEST = pattern(r"(?:^|_)(?:best|lowest|highest|min|max|record)(?:_|$)|best", 0)
_INFINITE = frozenset({"math.inf", "numpy.inf", "numpy.Inf", "torch.inf", "numpy.infty", "sys.maxsize"})
_HUGE = 1e6


@dataclass(frozen=True, slots=True)
class _Test:
    """A test of a score against the best one so far.

    Attributes:
        block: The arm of the `if` that runs if the score is better.
        best: The path of the best score.
        other: The score.
        rises: Whether a larger score is better.
    """

    block: Block
    best: str
    other: ast.expr
    rises: bool


class BestScoreNotKept(FileRule):
    """A model that is kept if its score beats the best one so far, which is never set, or is set back in each round.

    ## Why it costs
    If nothing updates the best score, every epoch beats its first value and the kept model is the last one; if it
    starts on the wrong side (`score > float("inf")`), no model is ever kept. Nothing raises until the file is missing.

    ## When it is right
    The value is a fixed threshold. Reported only if it starts at infinity or is named as the best one, and the test
    decides about keeping a model.

    ## Sources
    PyTorch tutorial "Transfer Learning for Computer Vision", which keeps the best weights of a training.
    """

    code, name = "ESP247", "best-score-not-kept"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        'best = float("inf")\n'
        "for epoch in range(10):\n"
        "    train(model)\n"
        "    loss = validate(model)\n"
        "    if loss < best:\n"
        '        torch.save(model.state_dict(), "best.pt")\n'
    )
    good = bad.replace("    if loss < best:\n", "    if loss < best:\n        best = loss\n")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the tests against a best score that is not kept."""
        if not file.imports_torch:
            return
        for function in file.functions:
            for block in function.blocks:
                found = _test(block) if block.kind is BlockKind.IF and block.loop is not None else None
                if found is not None and _keeps(block):
                    yield from self._judged(found, function)

    def _judged(self, found: _Test, function: Function) -> Iterator[RuleMatch]:
        set_where = _assigned(found, function)
        first = _first(set_where, found)
        if first is None:
            return
        start = _number(first.value, found.best, first)
        is_infinite = start is not None and abs(start) >= _HUGE
        if start is None or not (is_infinite or _BEST.search(tail_of(found.best).lower())):
            return
        later = [each for each in set_where if each is not first]
        message = ""
        if is_infinite and (start > 0) == found.rises and all(each.block.within(found.block) for each in later):
            message = f"{found.best!r} starts at {start:g} (line {first.line}), which nothing beats: this never runs"
        elif not later:
            message = (
                f"nothing sets {found.best!r} after line {first.line}, so this keeps every model, not the best one"
            )
        elif _is_set_back(first, found):
            message = f"{found.best!r} is set back in every round (line {first.line}), so this keeps every model"
        if message:
            remedy = f"write `{found.best} = {ast.unparse(found.other)}` here"
            if "starts at" in message:
                remedy = f"start at `float('{'-inf' if found.rises else 'inf'}')`"
            elif "set back" in message:
                remedy = f"set `{found.best}` before the loop"
            is_own = found.best.isidentifier()
            yield self.hit(
                found.block.node,
                message,
                remedy=remedy,
                confidence=Confidence.HIGH if is_own else Confidence.MODERATE,
                basis=SEEN if is_own else f"{SEEN}; unless another class sets it",
                severity=None if is_own else Severity.WARNING,
            )


def _test(block: Block) -> _Test | None:
    """Return the test of a score against the best one that an `if` makes, itself or by a name."""
    node = block.node
    if not isinstance(node, ast.If):
        return None
    test: ast.expr = node.test
    if isinstance(test, ast.Name):
        made = block.function.last_assignment(test.id, node.lineno)
        test = made.value if made is not None and made.block.loop is block.loop else test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right, rises = test.left, test.comparators[0], isinstance(test.ops[0], ast.Gt | ast.GtE)
    if not isinstance(test.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE):
        return None
    for best, other, is_up in ((right, left, rises), (left, right, not rises)):
        path = dotted(best) if isinstance(best, ast.Name | ast.Attribute) else ""
        if path and (path.isidentifier() or path.count(".") == 1) and _is_started(path, block):
            return _Test(block, path, other, is_up)
    return None


def _is_started(path: str, block: Block) -> bool:
    found = block.function.assignments.get(path, [])
    owner = owner_of(block.function) if path.startswith("self.") else None
    made = [*found, *(owner.attributes.get(path, []) if owner is not None else [])]
    return any(_number(each.value, path, each) is not None for each in made)


def _number(value: ast.expr, path: str, made: Assignment) -> float | None:
    """Return the number that a value surely is: `0.0`, `-1`, `float("inf")`, `-np.inf`, or a part of a tuple."""
    statement = made.statement
    if (
        isinstance(value, ast.Tuple)
        and isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Tuple)
    ):
        pairs = zip(statement.targets[0].elts, value.elts, strict=False)
        value = next((each for target, each in pairs if dotted(target) == path), value)
    sign = 1.0
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        sign, value = -1.0, value.operand
    number: float | None = None
    match value:
        case ast.Constant(value=int() | float() as given) if not isinstance(given, bool):
            number = float(given)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
            words = {"inf": 1.0, "+inf": 1.0, "infinity": 1.0, "-inf": -1.0, "-infinity": -1.0}
            number = words[text.lower()] * float("inf") if text.lower() in words else None
        case ast.Attribute() if resolve(dotted(value), made.block.function) in _INFINITE:
            number = float("inf")
        case _:
            pass
    return sign * number if number is not None else None


def _keeps(block: Block) -> bool:
    """Return whether an arm of an `if` keeps a model: it saves or copies it."""
    return any(_KEEPING.fullmatch(call.tail) for call in block.function.calls if call.block.within(block))


def _assigned(found: _Test, function: Function) -> list[Assignment]:
    owner = owner_of(function) if found.best.startswith("self.") else None
    if owner is not None:
        return owner.attributes.get(found.best, [])
    return function.assignments.get(found.best, [])


def _first(made: list[Assignment], found: _Test) -> Assignment | None:
    """Return the one assignment of a number to the best score, unless something else may set it."""
    function = found.block.function
    starts = [each for each in made if _number(each.value, found.best, each) is not None]
    if len(starts) != 1 or starts[0].is_augmented:
        return None
    changed = any(
        isinstance(node, ast.Global | ast.Nonlocal) and found.best in node.names
        for each in (function, *function.inner)
        for node in walk(each.node)
    )
    walrus = any(isinstance(node, ast.NamedExpr) and dotted(node.target) == found.best for node in walk(function.node))
    first = starts[0]
    is_above = first.block.function is not function or first.line < getattr(found.block.node, "lineno", 0)
    return None if changed or walrus or not is_above or _is_set_by_others(found) else first


def _is_set_by_others(found: _Test) -> bool:
    """Return whether code of the file sets an attribute of that name on some other object."""
    name = tail_of(found.best)
    return "." in found.best and any(
        tail_of(path) == name and path != found.best
        for each in found.block.function.file.functions
        for path in each.assignments
    )


def _is_set_back(first: Assignment, found: _Test) -> bool:
    """Return whether the best score starts again in each round of the loop that tests it, on every way."""
    loop = found.block.loop
    is_same = first.block.function is found.block.function and first.block.loop is loop
    return loop is not None and is_same and not any(tests_around(first.block, loop))
