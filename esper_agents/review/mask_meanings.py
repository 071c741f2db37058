"""Meanings of boolean masks: what `True` stands for in an expression."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.review.index import Origin, argument_for
from esper_agents.review.keyed_items import items_by_key
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

# An expression with more parts than this is not followed.
_STEPS = 12
_PADDING_NAME = pattern(r"(?i)(?:^|_)pad(?:ding)?(?:_|$|id|idx|token|index)")
# Calls that keep the elements of a mask.
_SAME = frozenset(
    {"bool", "to", "cuda", "unsqueeze", "squeeze", "expand", "expand_as", "view", "reshape", "repeat", "contiguous"}
    | {"type", "clone", "detach", "repeat_interleave", "int", "float", "long", "half", "type_as", "byte", "flatten"}
)
_BOOLEAN = frozenset({"bool", "torch.bool"})
_CASTS_TO_NUMBERS = frozenset({"int", "float", "long", "half", "byte", "type_as"})
_COMPARISONS = {"eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "gt": ast.Gt, "le": ast.LtE, "ge": ast.GtE}
# Ids of tokens, by name: compared with 0 they are compared with padding.
_IDS = pattern(r"(?i)(?:\w*_)?(?:ids?|tokens?|src|tgt|source|seqs?|sequences?|words?|text|inputs?|captions?)")
_LENGTHS = pattern(r"(?i)(?:^|[^a-z])(?:\w*_)?(?:length|len|size|valid|count)s?(?:_\w*)?(?:$|[^a-z])")
_OTHER_LENGTHS = pattern(r"(?i)pad|min|max|past|prefix|prompt|start|offset|window|context|skip|ignore")
_COUNTING = ("torch.arange", "torch.range")
# Values at which a score counts for nothing after a softmax.
_VERY_LOW = -1e3


class MaskMeaning(StrEnum):
    """What `True` stands for."""

    TOKEN = "a token"  # noqa: S105 - a token of a text
    PADDING = "padding"
    PAST = "the present and earlier positions"
    FUTURE = "later positions"


_OPPOSITE = {
    MaskMeaning.TOKEN: MaskMeaning.PADDING,
    MaskMeaning.PADDING: MaskMeaning.TOKEN,
    MaskMeaning.PAST: MaskMeaning.FUTURE,
    MaskMeaning.FUTURE: MaskMeaning.PAST,
}
KEPT = frozenset({MaskMeaning.TOKEN, MaskMeaning.PAST})


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask whose meaning is known.

    Attributes:
        meaning: What `True`, or 1, stands for.
        is_boolean: Whether its elements are `True` and `False`, not numbers.
        path: File of the expression that decides about the meaning.
        line: Its line.
        diagonal: For a triangle, whether it is `True`, or 1, for a position and itself; None if that is unknown.
        is_by_name: Whether it was followed by the key of a dictionary or to the only module that a call can mean.
    """

    meaning: MaskMeaning
    is_boolean: bool
    path: str
    line: int
    diagonal: bool | None = None
    is_by_name: bool = False

    def opposite(self) -> Mask:
        """Return the mask with `True` and `False` exchanged."""
        diagonal = None if self.diagonal is None else not self.diagonal
        return replace(self, meaning=_OPPOSITE[self.meaning], diagonal=diagonal)

    @property
    def hides_itself(self) -> bool:
        """Whether a triangle counts each position among the later ones, so that it does not see itself."""
        return self.diagonal is not None and self.diagonal is (self.meaning is MaskMeaning.FUTURE)


def mask_of(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> Mask | None:
    """Return what is known of a mask on all paths that lead to it; None if paths differ or one is unknown."""
    return _Reader(index).read(Origin(value, function, line), _STEPS)


def is_very_low(value: ast.expr, function: Function) -> bool:
    """Return whether a value counts for nothing among scores after a softmax: minus infinity, `-1e9`, `finfo().min`."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        inner = value.operand
        if isinstance(inner, ast.Constant) and isinstance(inner.value, int | float):
            return -inner.value <= _VERY_LOW
        return ast.unparse(inner) in {"float('inf')", "math.inf", "np.inf", "torch.inf", "inf"}
    if isinstance(value, ast.Call) and dotted(value.func) == "float" and len(value.args) == 1:
        return isinstance(value.args[0], ast.Constant) and value.args[0].value == "-inf"
    is_smallest = isinstance(value, ast.Attribute) and value.attr == "min" and isinstance(value.value, ast.Call)
    return is_smallest and resolve(dotted(value.value.func), function) == "torch.finfo"  # type: ignore[attr-defined]


class _Reader:
    """Reads one expression through names, parameters and helper functions."""

    def __init__(self, index: ProjectIndex) -> None:
        self.index = index

    def read(self, at: Origin, steps: int) -> Mask | None:
        """Return what is known of the mask that an expression makes."""
        found = None
        match at.value if steps else None:
            case ast.Name() | ast.Attribute():
                found = self._named(at, steps - 1)
            case ast.Subscript(slice=ast.Constant(value=str() as key)):
                found = self._item(key, steps - 1)
            case ast.Subscript(value=whole, slice=part) if _is_view(part):
                found = self.read(_part(at, whole), steps - 1)
            case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=operand):
                found = _opposite(self.read(_part(at, operand), steps - 1))
            case ast.BinOp(left=left, op=ast.Sub(), right=right) if _is_number(left, 1):
                inner = self.read(_part(at, right), steps - 1)
                found = _opposite(inner)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                found = self._compared(_part(at, left), type(operator), right, steps)
            case ast.Call() as call:
                found = self._called(at, call, steps)
            case _:
                pass
        return found

    def _named(self, at: Origin, steps: int) -> Mask | None:
        readings = []
        for origin in self.index.origins(at.value, at.function, at.line):
            if origin.value is at.value:
                readings.append(self._unexplained(dotted(at.value), at.function, steps))
            elif not _is_none(origin.value):
                readings.append(self.read(origin, steps))
        return _agreed(readings)

    def _unexplained(self, path: str, function: Function, steps: int) -> Mask | None:
        """Return the mask of a buffer, or of a parameter of the only module that a call can mean."""
        if function.name != "forward" or path not in function.parameters:
            return self._buffer(path, function, steps)
        count = len(function.parameters)
        calls = [each for each in calls_of_unknown(self.index) if len(each.node.args) == count - 1]
        if count not in forwards_by_count(self.index) or forwards_by_count(self.index)[count] != [function]:
            return None
        handed = [(each, argument_for(each, function, path)) for each in calls]
        readings = [
            self.read(Origin(value, call.function, call.line), steps) for call, value in handed if value is not None
        ]
        return _by_name(_agreed(readings))

    def _item(self, key: str, steps: int) -> Mask | None:
        """Return the mask that the dictionaries of the project hold under a key, where they agree."""
        items = items_by_key(self.index).get(key, ())
        return _by_name(_agreed([self.read(each, steps) for each in items]))

    def _buffer(self, path: str, function: Function, steps: int) -> Mask | None:
        """Return the mask that a module registered as a buffer under a name."""
        methods = function.owner.methods if function.owner is not None and path.startswith("self.") else {}
        for method in methods.values():
            for call in method.calls:
                named = call.argument(0, "name") if call.path == "self.register_buffer" else None
                tensor = call.argument(1, "tensor")
                if isinstance(named, ast.Constant) and named.value == path[5:] and tensor is not None:
                    return self.read(Origin(tensor, method, call.line), steps)
        return None

    def _called(self, at: Origin, value: ast.Call, steps: int) -> Mask | None:
        name = resolve(dotted(value.func), at.function)
        tail = tail_of(name)
        receiver = value.func.value if isinstance(value.func, ast.Attribute) else None
        is_torch = name.startswith("torch.") and "(" not in name
        subject = (value.args[0] if value.args else None) if is_torch else receiver
        others = value.args[1:] if is_torch else value.args
        if subject is not None:
            inner = _part(at, subject)
            if tail in {"triu", "tril"}:
                return self._triangle(inner, value, others)
            if tail in {"logical_not", "bitwise_not"}:
                return _opposite(self.read(inner, steps - 1))
            if tail in _COMPARISONS and len(others) == 1:
                return self._compared(inner, _COMPARISONS[tail], others[0], steps)
            if tail in _SAME and not is_torch:
                return _cast(self.read(inner, steps - 1), tail, value)
        return self._returned(value, at.function, steps)

    def _triangle(self, at: Origin, value: ast.Call, others: list[ast.expr]) -> Mask | None:
        """Return the mask that `triu` or `tril` makes of ones."""
        ones = self.index.origins(at.value, at.function, at.line)
        made = ones[0].value
        if len(ones) != 1 or not isinstance(made, ast.Call):
            return None
        maker = resolve(dotted(made.func), ones[0].function)
        is_filled = maker in {"torch.full", "torch.full_like"} and len(made.args) > 1 and _is_number(made.args[1], 1)
        if maker not in {"torch.ones", "torch.ones_like"} and not is_filled:
            return None
        is_upper = dotted(value.func).endswith("triu")
        diagonal = next((each.value for each in value.keywords if each.arg == "diagonal"), None)
        offset = diagonal if diagonal is not None else others[0] if others else ast.Constant(0)
        if not any(_is_number(offset, known) for known in ((0, 1) if is_upper else (0,))):
            return None
        kinds = [dotted(each.value) for each in made.keywords if each.arg == "dtype"]
        meaning = MaskMeaning.FUTURE if is_upper else MaskMeaning.PAST
        is_boolean = bool(kinds and kinds[0] in _BOOLEAN)
        return Mask(meaning, is_boolean, at.function.file.path, value.lineno, diagonal=_is_number(offset, 0))

    def _compared(self, left: Origin, operator: type[ast.cmpop], right: ast.expr, steps: int) -> Mask | None:
        if operator not in {ast.Eq, ast.NotEq}:
            return self._positions(left, operator, right)
        path, line = left.function.file.path, left.value.lineno
        known = self.read(left, steps - 1)
        if known is not None and (_is_number(right, 1) or _is_number(right, 0)):
            same = replace(known, is_boolean=True)
            return same if _is_number(right, 1) is (operator is ast.Eq) else same.opposite()
        if known is None and _is_padding_id(right, left.value) and "mask" not in ast.unparse(left.value).lower():
            meaning = MaskMeaning.PADDING if operator is ast.Eq else MaskMeaning.TOKEN
            return Mask(meaning, is_boolean=True, path=path, line=line)
        return None

    def _positions(self, left: Origin, operator: type[ast.cmpop], right: ast.expr) -> Mask | None:
        """Return the mask of positions compared with lengths: `arange(n)[None] < lengths[:, None]`."""
        left_counts, right_counts = (
            any(self._is_counting(each, left.function, left.line) for each in walk(side))
            for side in (left.value, right)
        )
        shown = ast.unparse(right if left_counts else left.value)
        if left_counts is right_counts or not _LENGTHS.search(shown) or _OTHER_LENGTHS.search(shown):
            return None
        if right_counts:
            operator = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}.get(operator, operator)
        meaning = MaskMeaning.TOKEN if operator in {ast.Lt, ast.LtE} else MaskMeaning.PADDING
        return Mask(meaning, is_boolean=True, path=left.function.file.path, line=left.value.lineno)

    def _is_counting(self, node: ast.AST, function: Function, line: int) -> bool:
        if isinstance(node, ast.Call):
            return resolve(dotted(node.func), function) in _COUNTING
        if not isinstance(node, ast.Name):
            return False
        origins = self.index.origins(node, function, line)
        return len(origins) == 1 and any(
            isinstance(each, ast.Call) and resolve(dotted(each.func), origins[0].function) in _COUNTING
            for each in walk(origins[0].value)
        )

    def _returned(self, value: ast.Call, function: Function, steps: int) -> Mask | None:
        """Return the mask that a function of the project returns on all its ways out."""
        call = next((each for each in function.calls if each.node is value), None)
        called = self.index.callees(call) if call is not None else ()
        readings = [
            self.read(Origin(statement.value, each, statement.lineno), steps - 1)
            for each in called
            for statement, _ in each.returns
            if statement.value is not None and not _is_none(statement.value)
        ]
        return _agreed(readings)


def calls_of_unknown(index: ProjectIndex) -> list[Call]:
    """Return the calls of parameters by position alone that no function or class of the project explains."""

    def find() -> list[Call]:
        return [
            call
            for file in index.files.values()
            for call in file.calls
            if call.path in call.function.parameters
            and not call.node.keywords
            and not call.has_splat()
            and not index.callees(call)
        ]

    return index.once("calls of unknown parameters", find)


def forwards_by_count(index: ProjectIndex) -> dict[int, list[Function]]:
    """Return the `forward` methods of a project's modules by how many parameters they have, `self` included."""

    def find() -> dict[int, list[Function]]:
        found: dict[int, list[Function]] = {}
        for owner in (each for file in index.files.values() for each in file.classes):
            if "forward" in owner.methods and index.is_module(owner):
                method = owner.methods["forward"]
                found.setdefault(len(method.parameters), []).append(method)
        return found

    return index.once("forward methods by parameters", find)


def _by_name(found: Mask | None) -> Mask | None:
    return replace(found, is_by_name=True) if found is not None else None


def _agreed(readings: list[Mask | None]) -> Mask | None:
    known = [each for each in readings if each is not None]
    if not known or len(known) < len(readings):
        return None
    same = {(each.meaning, each.is_boolean, each.diagonal) for each in known}
    if len(same) != 1:
        return None
    return replace(known[0], is_by_name=any(each.is_by_name for each in known))


def _opposite(found: Mask | None) -> Mask | None:
    return found.opposite() if found is not None else None


def _cast(found: Mask | None, tail: str, call: ast.Call) -> Mask | None:
    """Return a mask after a method that keeps its elements, with its new type."""
    if found is None:
        return None
    kinds = {dotted(each) for each in (*call.args, *(keyword.value for keyword in call.keywords))}
    if tail == "bool" or (tail in {"to", "type"} and kinds & _BOOLEAN):
        return replace(found, is_boolean=True)
    is_number = tail in _CASTS_TO_NUMBERS or any(kind.startswith("torch.") for kind in kinds)
    if tail in {"to", "type"} and not is_number and _may_name_type(call):
        return None
    return replace(found, is_boolean=found.is_boolean and not is_number)


def _may_name_type(call: ast.Call) -> bool:
    """Return whether `.to(...)` may change the type of the elements: it is given more than a device."""
    given = [*call.args, *(each.value for each in call.keywords if each.arg != "device")]
    return any("device" not in ast.unparse(each) and not isinstance(each, ast.Constant) for each in given)


def _is_view(index: ast.expr) -> bool:
    """Return whether an index keeps elements apart from a part or a new axis: slices, `None`, `...`."""
    parts: Iterator[ast.expr] = iter(index.elts if isinstance(index, ast.Tuple) else [index])
    return all(isinstance(each, ast.Slice | ast.Constant) for each in parts)


def _is_padding_id(value: ast.expr, compared: ast.expr) -> bool:
    """Return whether a value is the id of the padding token, by the names that the code gives to it and to the ids."""
    if isinstance(value, ast.Constant):
        last = tail_of(dotted(compared)) if isinstance(compared, ast.Name | ast.Attribute) else ""
        return _is_number(value, 0) and not isinstance(value.value, bool) and _IDS.fullmatch(last) is not None
    name = tail_of(dotted(value)) if isinstance(value, ast.Name | ast.Attribute) else ""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        name = str(value.slice.value).strip("<>[]").lower()
    return bool(name) and _PADDING_NAME.search(name) is not None


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_number(value: ast.expr, number: int) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value == number


def _part(at: Origin, value: ast.expr) -> Origin:
    return Origin(value, at.function, at.line)
