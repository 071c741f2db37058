"""Where an expression stands when it is asked for: in which function, called with what, and after which statements."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import are_alternatives

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.review.blocks import Block
    from esper_agents.review.shapes.facts import Value
    from esper_agents.review.tables import Assignment, Call, Function

Position: TypeAlias = tuple[int, int]
END: Position = (1 << 30, 0)
_CHANGING = frozenset({"unsqueeze_", "squeeze_", "t_", "transpose_", "resize_", "swapaxes_", "set_", "resize_as_"})


@dataclass(slots=True, eq=False)
class Frame:
    """One function, as it is called.

    Attributes:
        function: The function.
        arguments: What its parameters hold; None where nobody looked at who calls it.
        made: The frame of the constructor of the object whose method it is, where that is known.
        depth: How many calls were followed to get here.
        bound: What the variables of a comprehension hold.
        known: What its expressions were found to be, by the node's identity.
    """

    function: Function
    arguments: Mapping[str, Value] | None = None
    made: Frame | None = None
    depth: int = 0
    bound: Mapping[str, Value] = field(default_factory=dict)
    known: dict[int, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """A point in a function: names mean what they mean before the statement at this position."""

    block: Block
    position: Position


@dataclass(frozen=True, slots=True)
class Reaching:
    """The bindings that a name may have at a point.

    Attributes:
        assignments: Those of them that stand in the function itself.
        is_whole: Whether one of them surely ran, so that nothing from outside is meant.
    """

    assignments: tuple[Assignment, ...]
    is_whole: bool


_NOTHING = Reaching((), is_whole=False)


def place_of(call: Call) -> Place:
    """Return where a call stands."""
    return Place(call.block, position_of(call.statement))


def place_after(assignment: Assignment) -> Place:
    """Return the point at which the value of an assignment is worked out."""
    return Place(assignment.block, position_of(assignment.statement))


def position_of(node: ast.stmt) -> Position:
    """Return where a statement starts."""
    return (node.lineno, node.col_offset)


def reaching(function: Function, path: str, place: Place) -> Reaching:
    """Return the bindings of a path in a function that may hold at a point.

    The last binding in a block around the point hides all before it; those in branches and loops may hold as well.
    """
    every = function.assignments.get(path, ())
    # Most names are bound once, in the function's own block, or not at all.
    if not every:
        return _NOTHING
    if len(every) == 1 and every[0].block is function.block and place.block.function is function:
        is_above = position_of(every[0].statement) < place.position
        return Reaching((every[0],), is_whole=True) if is_above else _NOTHING
    found: list[Assignment] = []
    arms: dict[ast.AST, set[BlockKind]] = {}
    hiding: Assignment | None = None
    around = set(place.block.chain()) if place.block.function is function else set()
    above = bisect_left(every, place.position, key=lambda each: position_of(each.statement))
    for each in reversed(every[:above]):
        if not _may_hold(each, place, around):
            continue
        found.append(each)
        block = _running(each.block)
        if block in around or _completes(block, arms, around):
            hiding = each
            break
    found += _later_rounds(every, place, hiding)
    return Reaching(tuple(dict.fromkeys(found)), hiding is not None)


def _may_hold(each: Assignment, place: Place, around: set[Block]) -> bool:
    if each.block in around:
        return True
    is_inside = place.block.function is each.block.function
    return not (is_inside and (are_alternatives(each.block, place.block) or _leaves(each.block, around)))


def _leaves(block: Block, around: set[Block]) -> bool:
    """Return whether a block ends by leaving, so that nothing after it sees what it bound."""
    for each in block.chain():
        if each in around:
            return False
        body = _body(each)
        if body and body[-1].__class__.__name__ in {"Return", "Raise", "Continue"}:
            return True
    return False


def _body(block: Block) -> Sequence[ast.stmt]:
    name = "orelse" if block.kind is BlockKind.ELSE else "body"
    body = getattr(block.node, name, ())
    return body if block.kind in {BlockKind.IF, BlockKind.ELSE, BlockKind.EXCEPT, BlockKind.CASE} else ()


def _running(block: Block) -> Block:
    """Return the block that surely runs whenever a block does, `with` left out."""
    while block.kind is BlockKind.WITH and block.parent is not None:
        block = block.parent
    return block


def _completes(block: Block, arms: dict[ast.AST, set[BlockKind]], around: set[Block]) -> bool:
    """Return whether, with this arm, both arms of an `if` have bound the name."""
    while block.kind in {BlockKind.IF, BlockKind.ELSE} and block.parent is not None:
        seen = arms.setdefault(block.node, set())
        seen.add(block.kind)
        if len(seen) == 1:
            return False
        block = _running(block.parent)
        if block in around:
            return True
    return False


def _later_rounds(every: Sequence[Assignment], place: Place, hiding: Assignment | None) -> Iterator[Assignment]:
    """Yield the bindings further down in a loop around the point, which hold in its next round."""
    if place.block.loop is None:
        return
    for each in every:
        if position_of(each.statement) < place.position:
            continue
        shared = [loop for loop in place.block.loops() if each.block.within(loop)]
        if shared and (hiding is None or not hiding.block.within(shared[-1])):
            yield each


def is_reshaped_in_place(function: Function, path: str) -> bool:
    """Return whether a function changes the shape of what a path holds without binding it anew."""
    changed = function.file.once(
        ("reshaped in place", function),
        lambda: frozenset(call.receiver for call in function.calls if call.tail in _CHANGING),
    )
    return path in changed
