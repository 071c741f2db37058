"""Random sample calls of the operators of torch, in the forms that the shape rules are about."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from esper_agents.review.model.shape_rules import RULES, Shape

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from esper_agents.review.model.operators import Overload, Parameter

_INDEXES = frozenset({"index", "indices", "target_index"})
_MASKS = frozenset({"mask", "condition"})
# Sizes that stay apart in results: none is a product or sum of two others that a call sees.
_SIZES = (2, 3, 5, 7, 11)
Draw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SampleCall:
    """One call of an overload: arguments by name, tensors as shapes."""

    overload: Overload
    arguments: Draw

    def run(self, function: Callable[..., Any], make: Callable[[str, Shape], torch.Tensor]) -> Any:
        """Run the call on tensors that `make` makes of names and shapes."""
        positional, named = self.split({name: _made(name, value, make) for name, value in self.arguments.items()})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*positional, **named)

    def split(self, values: Draw | None = None) -> tuple[list[Any], Draw]:
        """Return the arguments by position, as far as there is no gap, and the others by name."""
        values = dict(self.arguments if values is None else values)
        positional: list[Any] = []
        for parameter in self.overload.parameters:
            if parameter.is_keyword_only or parameter.name not in values:
                break
            positional.append(values.pop(parameter.name))
        return positional, values


def _made(name: str, value: Any, make: Callable[[str, Shape], torch.Tensor]) -> Any:
    if isinstance(value, Shape):
        return make(name, value)
    if isinstance(value, list):
        return [_made(name, each, make) for each in value]
    return value


def meta(dtype: torch.dtype = torch.float32, device: str = "meta") -> Callable[[str, Shape], torch.Tensor]:
    """Return a maker of tensors on a device, of a dtype if the name is not that of an index or a mask."""

    def make(name: str, shape: Shape) -> torch.Tensor:
        if name in _INDEXES or name in _MASKS:
            return torch.zeros(tuple(shape), dtype=torch.int64 if name in _INDEXES else torch.bool, device=device)
        return torch.ones(tuple(shape), dtype=dtype, device=device)

    return make


def sizes(chance: random.Random, low: int = 1, high: int = 4) -> Shape:
    """Return a random shape whose sizes differ; one of them may be 1."""
    shape = chance.sample(_SIZES, chance.randint(low, high))
    if chance.random() < 0.25:
        shape[chance.randrange(len(shape))] = 1
    return Shape(shape)


def _tensors(overload: Overload) -> list[Parameter]:
    return [each for each in overload.parameters if "T" in each.kind and each.kind != "TL" and each.is_required]


def _dim(overload: Overload) -> Parameter | None:
    return next((each for each in overload.parameters if each.name in {"dim", "dims", "axis"}), None)


def _any_dim(chance: random.Random, rank: int) -> int:
    return chance.randrange(-rank, rank) if rank else 0


def _one(overload: Overload, chance: random.Random, low: int = 1, high: int = 4) -> tuple[Draw, Shape] | None:
    """Return a draw with one tensor of a random shape, None if the overload does not take exactly one."""
    tensors = _tensors(overload)
    if len(tensors) != 1 or any(each.kind == "TL" for each in overload.parameters):
        return None
    shape = sizes(chance, low, high)
    return {tensors[0].name: shape}, shape


def _has(overload: Overload, *names: str) -> bool:
    return set(names) <= {each.name for each in overload.parameters}


def _reduce(overload: Overload, chance: random.Random) -> Draw | None:
    found, dim = _one(overload, chance, 1, 4), _dim(overload)
    if found is None:
        return None
    draw, shape = found
    if dim is None:
        return draw
    is_free = not dim.is_required and dim.default is None
    if is_free and chance.random() < 0.3:
        return draw
    if dim.kind == "iL" and chance.random() < 0.5:
        draw[dim.name] = chance.sample(range(len(shape)), chance.randint(1, len(shape)))
    elif dim.is_required or chance.random() < 0.8:
        draw[dim.name] = _any_dim(chance, len(shape))
    if dim.name in draw and _has(overload, "keepdim") and chance.random() < 0.5:
        draw["keepdim"] = True
    return draw


def _same(overload: Overload, chance: random.Random) -> Draw | None:
    tensors, dim = _tensors(overload), _dim(overload)
    if not tensors or any(each.kind == "TL" for each in overload.parameters):
        return None
    shape = sizes(chance)
    draw: Draw = {each.name: shape for each in tensors if each.kind == "T"}
    if dim is not None and (dim.is_required or chance.random() < 0.5):
        draw[dim.name] = [_any_dim(chance, len(shape))] if dim.kind == "iL" else _any_dim(chance, len(shape))
    return draw


def _broadcast(overload: Overload, chance: random.Random) -> Draw | None:
    tensors = _tensors(overload)
    dim = _dim(overload)
    if len(tensors) < 2 or (dim is not None and dim.is_required):
        return None
    whole = sizes(chance, 2, 4)
    draw: Draw = {tensors[0].name: whole}
    for each in tensors[1:]:
        part = [size if chance.random() < 0.6 else 1 for size in whole]
        draw[each.name] = Shape(part[chance.randrange(len(part)) :])
    names = list(draw)
    if chance.random() < 0.4:
        draw[names[0]], draw[names[-1]] = draw[names[-1]], draw[names[0]]
    return draw


def _listing(*, is_stack: bool) -> Callable[[Overload, random.Random], Draw | None]:
    def sample(overload: Overload, chance: random.Random) -> Draw | None:
        lists, dim = [each for each in overload.parameters if each.kind == "TL"], _dim(overload)
        if len(lists) != 1 or dim is None or _tensors(overload):
            return None
        shape, count = sizes(chance), chance.randint(1, 3)
        place = _any_dim(chance, len(shape) + is_stack) if chance.random() < 0.7 else 0
        parts = [list(shape) for _ in range(count)]
        if not is_stack:
            for part in parts:
                part[place] = chance.choice(_SIZES)
        draw: Draw = {lists[0].name: [Shape(part) for part in parts]}
        return draw | ({dim.name: place} if place or dim.is_required else {})

    return sample


def _matmul(overload: Overload, chance: random.Random) -> Draw | None:
    tensors = _tensors(overload)
    m, k, n, b, c = chance.sample(_SIZES, 5)
    forms = (((m, k), (k, n)), ((b, m, k), (b, k, n)), ((k,), (k,)), ((m, k), (k,)), ((k,), (k, n)))
    forms += (((b, m, k), (k, n)), ((c, 1, m, k), (b, k, n)), ((b, m, k), (k,)))
    one, other = chance.choice(forms)
    if len(tensors) == 3 and {each.name for each in tensors[1:]} & {"mat1", "mat2", "mat", "batch1", "vec1"}:
        result = RULES["matmul"]({"mat1": Shape(one), "mat2": Shape(other)})
        if _has(overload, "vec1") or not isinstance(result, Shape):
            return None
        first = Shape(result[chance.randrange(len(result)) :]) if result else Shape()
        return {tensors[0].name: first, tensors[1].name: Shape(one), tensors[2].name: Shape(other)}
    if len(tensors) != 2 or _dim(overload) is not None:
        return None
    return {tensors[0].name: Shape(one), tensors[1].name: Shape(other)}


def _outer(overload: Overload, chance: random.Random) -> Draw | None:
    tensors = _tensors(overload)
    if len(tensors) != 2:
        return None
    one, other = chance.sample(_SIZES, 2)
    return {tensors[0].name: Shape((one,)), tensors[1].name: Shape((other,))}


def _plain(low: int, high: int) -> Callable[[Overload, random.Random], Draw | None]:
    def sample(overload: Overload, chance: random.Random) -> Draw | None:
        found = _one(overload, chance, low, high)
        return None if found is None or _dim(overload) is not None else found[0]

    return sample


def _with_arguments(
    *names: str, values: Callable[[random.Random, Shape], tuple[Any, ...]], low: int = 1
) -> Callable[[Overload, random.Random], Draw | None]:
    """Return a sampler of one tensor and the named arguments, whose values depend on its shape."""

    def sample(overload: Overload, chance: random.Random) -> Draw | None:
        found = _one(overload, chance, low)
        if found is None or not _has(overload, *names):
            return None
        return found[0] | dict(zip(names, values(chance, found[1]), strict=True))

    return sample


def _two_dims(chance: random.Random, shape: Shape) -> tuple[Any, ...]:
    return _any_dim(chance, len(shape)), _any_dim(chance, len(shape))


def _order(chance: random.Random, shape: Shape) -> tuple[Any, ...]:
    return (chance.sample(range(len(shape)), len(shape)),)


def _factors(chance: random.Random, shape: Shape) -> tuple[Any, ...]:
    joined = [shape[0] * shape[1], *shape[2:]] if len(shape) > 1 else [*shape, 1]  # type: ignore[operator]
    chance.shuffle(joined)
    if chance.random() < 0.5:
        joined[chance.randrange(len(joined))] = -1
    return (joined,)


def _wider(chance: random.Random, shape: Shape) -> tuple[Any, ...]:
    return ([chance.choice(_SIZES), *(size if chance.random() < 0.5 else -1 for size in shape)],)


def _repeats(chance: random.Random, shape: Shape) -> tuple[Any, ...]:
    return ([chance.randint(1, 3) for _ in range(len(shape) + chance.randint(0, 1))],)


def _squeeze(overload: Overload, chance: random.Random) -> Draw | None:
    found, dim = _one(overload, chance), _dim(overload)
    if found is None:
        return None
    draw, shape = found
    draw[next(iter(draw))] = Shape(size if chance.random() < 0.5 else 1 for size in shape)
    return draw if dim is None else draw | {dim.name: _any_dim(chance, len(shape))}


def _gather(overload: Overload, chance: random.Random) -> Draw | None:
    tensors = _tensors(overload)
    if [each.name for each in tensors[1:]] != ["index"] or _dim(overload) is None:
        return None
    shape = sizes(chance)
    place = _any_dim(chance, len(shape))
    index = [chance.randint(1, size) for size in shape]  # type: ignore[arg-type]
    return {tensors[0].name: shape, "dim": place, "index": Shape(index)}


def _index_select(overload: Overload, chance: random.Random) -> Draw | None:
    draw = _gather(overload, chance)
    return None if draw is None else draw | {"index": Shape((chance.choice(_SIZES),))}


def _factory(overload: Overload, chance: random.Random) -> Draw | None:
    name = next((each.name for each in overload.parameters if each.name in {"size", "shape"}), None)
    if name is None or len(_tensors(overload)) > 1:
        return None
    draw: Draw = {each.name: sizes(chance) for each in _tensors(overload)}
    return draw | {name: list(sizes(chance))}


def _parts(name: str) -> Callable[[Overload, random.Random], Draw | None]:
    def values(chance: random.Random, shape: Shape) -> tuple[Any, ...]:
        return chance.randint(1, 4), _any_dim(chance, len(shape))

    return _with_arguments(name, "dim", values=values)


def _first_of(*samplers: Callable[[Overload, random.Random], Draw | None]) -> Callable[..., Draw | None]:
    def sample(overload: Overload, chance: random.Random) -> Draw | None:
        return next((draw for each in samplers if (draw := each(overload, chance)) is not None), None)

    return sample


def _chosen(chance: random.Random, shape: Shape) -> tuple[Any, ...]:
    place = _any_dim(chance, len(shape))
    return place, chance.randrange(shape[place])  # type: ignore[call-overload]


def _window(chance: random.Random, shape: Shape) -> tuple[Any, ...]:
    place = _any_dim(chance, len(shape))
    length = chance.randint(1, shape[place])  # type: ignore[arg-type]
    return place, 0, length


def _largest(chance: random.Random, shape: Shape) -> tuple[Any, ...]:
    place = _any_dim(chance, len(shape))
    return chance.randint(1, shape[place]), place  # type: ignore[arg-type]


# Rules in the order in which they are tried: the first that predicts every sample is taken.
SAMPLERS: dict[str, Callable[[Overload, random.Random], Draw | None]] = {
    "gather": _gather,
    "index select": _index_select,
    "swap": _first_of(
        _with_arguments("dim0", "dim1", values=_two_dims), _with_arguments("axis0", "axis1", values=_two_dims)
    ),
    "permute": _with_arguments("dims", values=_order),
    "move": _with_arguments("source", "destination", values=_two_dims),
    "expand": _with_arguments("size", values=_wider),
    "view": _first_of(_with_arguments("shape", values=_factors), _with_arguments("size", values=_factors)),
    "repeat": _first_of(_with_arguments("repeats", values=_repeats), _with_arguments("dims", values=_repeats)),
    "factory": _factory,
    "flatten": _with_arguments("start_dim", "end_dim", values=lambda _, shape: (0, len(shape) - 1)),
    "unflatten": _first_of(
        _with_arguments("dim", "sizes", values=lambda _, shape: (0, (shape[0], 1, -1))),
        _with_arguments("dim", "size", values=lambda _, shape: (0, (shape[0], 1, -1))),
    ),
    "chunk": _parts("chunks"),
    "split": _first_of(_parts("split_size"), _parts("split_size_or_sections")),
    "select": _with_arguments("dim", "index", values=_chosen),
    "narrow": _first_of(
        _with_arguments("dim", "start", "length", values=_window), _with_arguments("k", "dim", values=_largest)
    ),
    "cat": _listing(is_stack=False),
    "stack": _listing(is_stack=True),
    "reduce": _reduce,
    "broadcast": _broadcast,
    "same": _same,
    "matmul": _matmul,
    "outer": _outer,
    "matrix transpose": _plain(1, 4),
    "unbind": _with_arguments("dim", values=lambda chance, shape: (_any_dim(chance, len(shape)),)),
    "unsqueeze": _with_arguments("dim", values=lambda chance, shape: (_any_dim(chance, len(shape) + 1),)),
    "squeeze": _squeeze,
}
_FILLERS = {"n": 0.5, "Tn": 0.5, "i": 1, "iL": 1, "b": False}
# Tries for each rule; of the forms of a product most operators take one or two.


def samples(rule: str, overload: Overload, chance: random.Random, count: int) -> Iterator[SampleCall]:
    """Yield random calls of an overload in the form that a rule is about; none if it does not take that form."""
    for _ in range(count):
        draw = SAMPLERS[rule](overload, chance)
        if draw is None:
            return
        for each in overload.parameters:
            is_bound = each.kind == "Tn" and chance.random() < 0.5
            if (each.is_required or is_bound) and each.name not in draw:
                if each.kind not in _FILLERS:
                    return
                draw[each.name] = _FILLERS[each.kind]
        yield SampleCall(overload, draw)
