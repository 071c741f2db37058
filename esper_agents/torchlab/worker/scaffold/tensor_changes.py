"""Changes of the tensors of a plan: their shapes, kinds and numbers.

Each takes a plan, the match of a message and the stage that failed, and yields changed plans.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from .guesses import BATCH, CHANNELS, LENGTH, SIDE, WIDTH, size
from .plan import BOOL, FLOAT, LONG, CallPlan, Expression, TensorPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RANKS: dict[int, tuple[int, ...]] = {
    1: (WIDTH,),
    2: (BATCH, WIDTH),
    3: (BATCH, LENGTH, WIDTH),
    4: (BATCH, CHANNELS, SIDE, SIDE),
    5: (BATCH, CHANNELS, LENGTH, SIDE, SIDE),
}
_LARGEST = 512
_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_JOINED = re.compile(r"(?<![\w])((?:[A-Z]|\d{1,3})(?:x(?:[A-Z]|\d{1,3})){1,4})(?![\w])")
_SYMBOL = r"['\"]?(?:\*|[A-Z]\w?|\d{1,3})['\"]?"
_LISTED = re.compile(rf"[\[(]\s*({_SYMBOL}(?:\s*,\s*{_SYMBOL}){{1,4}})\s*[\])]")


def _each(plan: CallPlan, change: Callable[[TensorPlan], TensorPlan | None]) -> Iterator[CallPlan]:
    """Yield a plan for each tensor that a change applies to, and one in which it applies to all of them."""
    changed = [
        (where, name, made) for where, name, each in plan.tensors() if (made := change(each)) not in (None, each)
    ]
    whole = plan
    for where, name, made in changed:
        whole = whole.with_argument(where, name, made)
    alike = len(changed) > 1 and len({each.shape for _, _, each in plan.tensors()}) == 1
    if alike:
        yield whole
    for where, name, made in changed:
        yield plan.with_argument(where, name, made)
    if len(changed) > 1 and not alike:
        yield whole


def matrix_product(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans in which the factors of a matrix product fit."""
    rows, have, want = int(found.group(1)), int(found.group(2)), int(found.group(3))

    def last(each: TensorPlan) -> TensorPlan | None:
        return each.sized(-1, want) if each.kind == FLOAT and each.shape and each.shape[-1] == have else None

    yield from _each(plan, last)
    # Flattened before: the product of the sizes after the batch must become the wanted one.
    for where, name, each in plan.tensors():
        if each.kind == FLOAT and len(each.shape) == 4 and have != want:  # noqa: PLR2004 - an image
            channels, side = each.shape[1], each.shape[-1]
            for factor in (0.25, 0.5, 2, 4, 7 / 8, 7):
                scaled = int(side * factor)
                if 1 <= scaled <= _LARGEST and want * side * side == have * scaled * scaled:
                    yield plan.with_argument(
                        where, name, replace(each, shape=(each.shape[0], channels, scaled, scaled))
                    )
    for where, name, each in plan.tensors():
        if each.kind == FLOAT and len(each.shape) > 1:
            yield plan.with_argument(where, name, replace(each, shape=(BATCH, want)))
            if rows and each.shape[-1] != want:
                yield plan.with_argument(where, name, each.sized(-1, want))


def channel_count(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans with the number of channels that a message wants."""
    want, have = int(found.group(1)), int(found.group(2))

    def second(each: TensorPlan) -> TensorPlan | None:
        return each.sized(1, want) if len(each.shape) > 1 and each.shape[1] == have else None

    yield from _each(plan, second)
    yield from _each(plan, lambda each: each.sized(0, want) if each.shape[:1] == (have,) else None)
    yield from _each(plan, lambda each: each.sized(-1, want) if each.shape[-1:] == (have,) else None)


def rank(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans with a number of dimensions that a message lists."""
    for digit in re.findall(r"\d", found.group(1)):
        yield from of_rank(plan, int(digit))


def of_rank(plan: CallPlan, rank: int) -> Iterator[CallPlan]:
    """Yield plans whose tensors have a number of dimensions."""
    if rank in _RANKS:
        yield from _each(plan, lambda each: _ranked(each, rank) if len(each.shape) != rank else None)


def _ranked(each: TensorPlan, rank: int) -> TensorPlan:
    """Return a tensor with another number of dimensions, which keeps its channels or its width."""
    shape = list(_RANKS[rank])
    if len(each.shape) > 1:
        shape[1 if rank >= 4 else -1] = each.shape[1] if len(each.shape) >= 4 else each.shape[-1]  # noqa: PLR2004 - images
        if rank >= 4 and len(each.shape) < 4:  # noqa: PLR2004 - images
            shape[1] = CHANNELS
    return replace(each, shape=tuple(shape))


def symbolic_shape(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans with the shapes that a message states in symbols, such as `BxCxHxW` or `['B', 'C']`."""
    text = found.string
    shapes = [each.group(1).split("x") for each in _JOINED.finditer(text)]
    shapes += [re.findall(r"\*|\w+", each.group(1)) for each in _LISTED.finditer(text)]
    symbolic = [each for each in shapes if not all(one.isdigit() for one in each)]
    for shape in list(dict.fromkeys(map(tuple, symbolic)))[:3]:
        sizes = tuple(BATCH if one == "*" else size(one) for one in shape)
        yield from _each(plan, lambda each, sizes=sizes: replace(each, shape=sizes))  # type: ignore[misc] # a default


def worded_rank(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans with a number of dimensions that a message writes as a word."""
    yield from of_rank(plan, _WORDS[found.group(1).lower()])


def stated_rank(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans with the number of dimensions that a message states."""
    yield from of_rank(plan, int(found.group(1) or found.group(2)))


def equal_sizes(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans in which one size of a message becomes the other."""
    one, other = int(found.group(1)), int(found.group(2))
    for have, want in ((one, other), (other, one)):

        def change(each: TensorPlan, have: int = have, want: int = want) -> TensorPlan | None:
            if have not in each.shape or each.shape.count(have) > 1 or not 0 < want <= _LARGEST:
                return None
            return each.sized(each.shape.index(have), want)

        yield from _each(plan, change)
        for where in ("make", "call"):
            for name, value in getattr(plan, where):
                if isinstance(value, Expression) and value.text == str(have) and want:
                    yield plan.with_argument(where, name, Expression(str(want)))
    yield from same_shape(plan)


def same_shape(plan: CallPlan) -> Iterator[CallPlan]:
    """Yield plans in which all tensors of the call have the shape of one of them."""
    tensors = [tensor for tensor in plan.tensors() if tensor[0] == "call"]
    for _, _, model in tensors if len(tensors) > 1 else ():
        made = plan
        for where, name, each in tensors:
            made = made.with_argument(where, name, replace(each, shape=model.shape))
        yield made


def equal_shapes(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans in which the tensors of one shape take the other."""
    one, other = (tuple(int(each) for each in found.group(at).replace(",", " ").split()) for at in (1, 2))
    for have, want in ((other, one), (one, other)):

        def change(each: TensorPlan, have: tuple[int, ...] = have, want: tuple[int, ...] = want) -> TensorPlan | None:
            return replace(each, shape=want) if each.shape == have else None

        yield from _each(plan, change)


def label_count(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans in which a number of labels and the second size of the tensors agree."""
    want = int(found.group(2) or found.group(4))
    made = plan
    for where, name, each in plan.tensors():
        made = made.with_argument(where, name, replace(each, shape=(BATCH, want), high=2))
    yield made


def last_size(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans with another last size."""
    want = int(found.group(1))
    yield from _each(
        plan,
        lambda each: each.sized(-1, want) if each.kind == FLOAT and each.shape and each.shape[-1] != want else None,
    )


def integers(plan: CallPlan, _: re.Match[str], __: str) -> Iterator[CallPlan]:
    """Yield plans with integer tensors, which have the shape of tokens first."""

    def whole(each: TensorPlan) -> TensorPlan | None:
        if each.kind == LONG:
            return None
        return TensorPlan((BATCH, LENGTH) if len(each.shape) > 2 else each.shape, LONG, 4)  # noqa: PLR2004 - tokens have no width

    yield from _each(plan, whole)
    yield from _each(plan, lambda each: None if each.kind == LONG else replace(each, kind=LONG, high=4))


def floats(plan: CallPlan, _: re.Match[str], __: str) -> Iterator[CallPlan]:
    """Yield plans with floating-point tensors."""
    yield from _each(plan, lambda each: None if each.kind == FLOAT else replace(each, kind=FLOAT))


def booleans(plan: CallPlan, _: re.Match[str], __: str) -> Iterator[CallPlan]:
    """Yield plans with boolean tensors."""
    yield from _each(plan, lambda each: None if each.kind == BOOL else replace(each, kind=BOOL))


def smaller_integers(plan: CallPlan, _: re.Match[str], __: str) -> Iterator[CallPlan]:
    """Yield plans with smaller integers."""
    yield from _each(
        plan, lambda each: replace(each, high=max(each.high // 4, 1)) if each.kind == LONG and each.high > 1 else None
    )


def unit_interval(plan: CallPlan, _: re.Match[str], __: str) -> Iterator[CallPlan]:
    """Yield plans with numbers between 0 and 1."""
    yield from _each(
        plan, lambda each: None if each.is_positive or each.kind != FLOAT else replace(each, is_positive=True)
    )


def larger(plan: CallPlan, _: re.Match[str], __: str) -> Iterator[CallPlan]:
    """Yield plans with larger images and sequences."""

    def grown(each: TensorPlan) -> TensorPlan | None:
        if len(each.shape) < 3 or each.shape[-1] >= _LARGEST // 2:  # noqa: PLR2004 - no image or sequence
            return None
        places = (-2, -1) if len(each.shape) > 3 else (-1,)  # noqa: PLR2004 - an image
        for at in places:
            each = each.sized(at, each.shape[at] * (7 if each.shape[at] == SIDE else 2))
        return each

    yield from _each(plan, grown)


def scalar(plan: CallPlan, _: re.Match[str], __: str) -> Iterator[CallPlan]:
    """Yield plans with single numbers as tensors."""
    yield from _each(plan, lambda each: replace(each, shape=()) if each.shape else None)


def square(plan: CallPlan, _: re.Match[str], __: str) -> Iterator[CallPlan]:
    """Yield plans with square matrices."""
    yield from _each(
        plan,
        lambda each: (
            each.sized(-2, each.shape[-1]) if len(each.shape) > 1 and each.shape[-1] != each.shape[-2] else None
        ),
    )


def groups(plan: CallPlan, found: re.Match[str], _: str) -> Iterator[CallPlan]:
    """Yield plans whose channels are a multiple of the groups of a normalization."""
    have, groups = int(found.group(2)), int(found.group(3))
    yield from _sized_alike(plan, have, max(groups, WIDTH - WIDTH % groups))


def _sized_alike(plan: CallPlan, have: int, want: int) -> Iterator[CallPlan]:
    yield from _each(plan, lambda each: each.sized(1, want) if len(each.shape) > 1 and each.shape[1] == have else None)
    for where in ("make", "call"):
        for name, value in getattr(plan, where):
            if isinstance(value, Expression) and value.text == str(have):
                yield plan.with_argument(where, name, Expression(str(want)))
