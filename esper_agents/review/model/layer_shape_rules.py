"""Shape rules of layers and losses: convolution and pooling arithmetic, padding, products by letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.model.shape_rules import (
    LISTS,
    UNKNOWN,
    Result,
    Shape,
    ShapeMismatchError,
    Size,
    argument,
    axis,
    broadcast,
    ints,
    tensor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def linear(call: Mapping[str, object]) -> Result:
    """Return the shape of `linear`: the last size is the number of rows of the weight."""
    shape, weight = tensor(call, "input"), tensor(call, "weight")
    if shape is None or weight is None or not shape or not weight:
        return None
    _demand_equal(shape[-1], weight[-1], "features")
    return Shape((*shape[:-1], *weight[:-1]))


def _demand_equal(one: Size, other: Size, what: str) -> None:
    if isinstance(one, int) and isinstance(other, int) and one != other:
        raise ShapeMismatchError(f"{one} {what}, but the weight has {other}")


def embedding(call: Mapping[str, object]) -> Result:
    """Return the shape of `embedding`: the sizes of the indices and the width of the weight."""
    indices, weight = tensor(call, "input", "indices"), tensor(call, "weight")
    return None if indices is None or weight is None or len(weight) != 2 else Shape((*indices, weight[1]))  # noqa: PLR2004


def one_hot(call: Mapping[str, object]) -> Result:
    """Return the shape of `one_hot`: the sizes of the indices and the number of classes, -1 for the largest index."""
    shape, count = tensor(call), call.get("num_classes")
    return None if shape is None else Shape((*shape, count if isinstance(count, int) and count >= 0 else None))


def _numbers(value: object, count: int) -> list[int] | None:
    """Return one number for each dimension, from one for all or a list."""
    listed = ints(value)
    if listed is None or not all(isinstance(each, int) for each in listed):
        return None
    numbers = [each for each in listed if isinstance(each, int)]
    return numbers * count if len(numbers) == 1 else numbers if len(numbers) == count else None


def _settings(call: Mapping[str, object], names: Sequence[str], count: int) -> list[list[int]] | None:
    """Return the numbers of arguments for each dimension; a stride that is not given is the size of the window."""
    defaults = {"padding": 0, "dilation": 1, "output_padding": 0, "stride": 1}
    found = []
    for name in names:
        value = call.get(name)
        is_absent = value is None or (isinstance(value, LISTS) and not value)
        if is_absent and name == "stride" and "weight" not in call:
            value = call.get("kernel_size")
        elif is_absent:
            value = defaults.get(name)
        numbers = _numbers(value, count)
        if numbers is None:
            return None
        found.append(numbers)
    return found


def convolution(call: Mapping[str, object]) -> Result:
    """Return the shape of a convolution, of a batch or a single input."""
    shape, weight = tensor(call, "input"), tensor(call, "weight")
    if shape is None or weight is None or len(weight) < 3 or len(shape) not in {len(weight), len(weight) - 1}:  # noqa: PLR2004
        return None
    count, groups, padding = len(weight) - 2, call.get("groups", 1), call.get("padding", 0)
    channels = weight[1]
    if isinstance(groups, int) and isinstance(channels, int):
        _demand_equal(shape[-count - 1], channels * groups, "channels")
    front = (*shape[: -count - 1], weight[0])
    if padding == "same":
        return Shape((*front, *shape[-count:]))
    settings = _settings(
        {**call, "padding": 0 if padding == "valid" else padding}, ("stride", "padding", "dilation"), count
    )
    if settings is None:
        return Shape((*front, *(None,) * count))
    windows = zip(shape[-count:], weight[-count:], *settings, strict=True)
    return Shape((*front, *(_slid(size, kernel, rest) for size, kernel, *rest in windows)))


def _slid(size: Size, kernel: Size, setting: Sequence[int], *, is_up: bool = False) -> Size:
    """Return how many windows fit into a size, with stride, padding and dilation."""
    stride, padding, dilation = setting
    if not isinstance(size, int) or not isinstance(kernel, int) or not stride:
        return None
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if room < 0:
        raise ShapeMismatchError(f"a window of {kernel} does not fit into a size of {size}")
    if not is_up:
        return room // stride + 1
    count = -(-room // stride) + 1
    # The last window begins inside of the input or its left padding.
    return count - 1 if (count - 1) * stride >= size + padding else count


def transposed_convolution(call: Mapping[str, object]) -> Result:
    """Return the shape of a transposed convolution."""
    shape, weight = tensor(call, "input"), tensor(call, "weight")
    groups = call.get("groups", 1)
    if shape is None or weight is None or len(weight) < 3 or not isinstance(groups, int):  # noqa: PLR2004
        return None
    count, channels = len(weight) - 2, weight[1]
    if len(shape) not in {len(weight), len(weight) - 1}:
        return None
    _demand_equal(shape[-count - 1], weight[0], "channels")
    front = (*shape[: -count - 1], channels * groups if isinstance(channels, int) else None)
    settings = _settings(call, ("stride", "padding", "output_padding", "dilation"), count)
    if settings is None:
        return Shape((*front, *(None,) * count))
    sizes: list[Size] = []
    for size, kernel, stride, padding, extra, dilation in zip(shape[-count:], weight[-count:], *settings, strict=True):
        if isinstance(size, int) and isinstance(kernel, int):
            sizes.append((size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1)
        else:
            sizes.append(None)
    return Shape((*front, *sizes))


def _pooling(call: Mapping[str, object], count: int) -> Result:
    shape = tensor(call)
    names = ("kernel_size", "stride", "padding", "dilation")
    settings = _settings(call, names, count)
    is_up = call.get("ceil_mode", False)
    if shape is None or len(shape) <= count or settings is None or not isinstance(is_up, bool):
        return None
    windows = zip(shape[-count:], *settings, strict=True)
    return Shape((*shape[:-count], *(_slid(size, kernel, rest, is_up=is_up) for size, kernel, *rest in windows)))


def pool1d(call: Mapping[str, object]) -> Result:
    """Return the shape of pooling over one dimension."""
    return _pooling(call, 1)


def pool2d(call: Mapping[str, object]) -> Result:
    """Return the shape of pooling over two dimensions."""
    return _pooling(call, 2)


def pool3d(call: Mapping[str, object]) -> Result:
    """Return the shape of pooling over three dimensions."""
    return _pooling(call, 3)


def _adaptive(call: Mapping[str, object], count: int) -> Result:
    shape, output = tensor(call), call.get("output_size")
    listed = [output] * count if isinstance(output, int) else list(output) if isinstance(output, LISTS) else None
    if shape is None or listed is None or len(shape) <= count:
        return None
    listed = listed * count if len(listed) == 1 else listed
    if len(listed) != count:
        return None
    kept = zip(shape[-count:], listed, strict=True)
    return Shape((*shape[:-count], *(size if wanted is None else wanted for size, wanted in kept)))


def adaptive_pool1d(call: Mapping[str, object]) -> Result:
    """Return the shape of adaptive pooling over one dimension."""
    return _adaptive(call, 1)


def adaptive_pool2d(call: Mapping[str, object]) -> Result:
    """Return the shape of adaptive pooling over two dimensions."""
    return _adaptive(call, 2)


def adaptive_pool3d(call: Mapping[str, object]) -> Result:
    """Return the shape of adaptive pooling over three dimensions."""
    return _adaptive(call, 3)


def padding(call: Mapping[str, object]) -> Result:
    """Return the shape of `pad`: pairs of numbers, the last dimension first."""
    shape, pairs = tensor(call), ints(call.get("pad"))
    if shape is None or pairs is None or len(pairs) % 2 or len(pairs) // 2 > len(shape):
        return None
    sizes = list(shape)
    for place in range(len(pairs) // 2):
        added, size = pairs[2 * place : 2 * place + 2], sizes[-1 - place]
        is_known = isinstance(size, int) and all(isinstance(each, int) for each in added)
        sizes[-1 - place] = size + sum(added) if is_known else None  # type: ignore[operator, arg-type]
    return Shape(sizes)


def interpolation(call: Mapping[str, object]) -> Result:
    """Return the shape of `interpolate`: the sizes asked for, or the sizes times a factor."""
    shape, sizes, factor = tensor(call), call.get("size"), call.get("scale_factor")
    if shape is None or len(shape) < 3:  # noqa: PLR2004 - batch, channels and at least one dimension
        return None
    count = len(shape) - 2
    if sizes is not None:
        listed = _numbers(sizes, count)
        return None if listed is None else Shape((*shape[:2], *listed))
    factors = [factor] * count if isinstance(factor, int | float) else list(factor) if isinstance(factor, LISTS) else []
    if len(factors) != count:
        return None
    pairs = zip(shape[2:], factors, strict=True)
    return Shape((*shape[:2], *(_scaled(size, each) for size, each in pairs)))


def _scaled(size: Size, factor: object) -> Size:
    return int(size * factor) if isinstance(size, int) and isinstance(factor, int | float) else None


def pixel_shuffle(call: Mapping[str, object]) -> Result:
    """Return the shape of `pixel_shuffle`: channels become height and width."""
    shape, factor = tensor(call), call.get("upscale_factor")
    if shape is None or len(shape) < 3 or not isinstance(factor, int):  # noqa: PLR2004
        return None
    channels, height, width = shape[-3:]
    if not isinstance(channels, int) or not isinstance(height, int) or not isinstance(width, int):
        return None
    return Shape((*shape[:-3], channels // factor**2, height * factor, width * factor))


def pixel_unshuffle(call: Mapping[str, object]) -> Result:
    """Return the shape of `pixel_unshuffle`: height and width become channels."""
    shape, factor = tensor(call), call.get("downscale_factor")
    if shape is None or len(shape) < 3 or not isinstance(factor, int):  # noqa: PLR2004
        return None
    channels, height, width = shape[-3:]
    if not isinstance(channels, int) or not isinstance(height, int) or not isinstance(width, int):
        return None
    return Shape((*shape[:-3], channels * factor**2, height // factor, width // factor))


def elementwise_loss(call: Mapping[str, object]) -> Result:
    """Return the shape of a loss of each element: a number, or with `reduction="none"` the common shape."""
    one, other = tensor(call, "input"), tensor(call, "target")
    if one is None or other is None:
        return None
    return _reduced(call, broadcast([one, other]))


def _reduced(call: Mapping[str, object], shape: Shape) -> Result:
    if call.get("size_average") is not None or call.get("reduce") is not None:
        return None
    reduction = call.get("reduction", "mean")
    return shape if reduction == "none" else Shape() if reduction in {"mean", "sum", "batchmean"} else None


def class_loss(call: Mapping[str, object]) -> Result:
    """Return the shape of a loss over classes: a number, or with `reduction="none"` the shape without classes."""
    shape, target = tensor(call, "input"), tensor(call, "target")
    if shape is None or target is None or not shape:
        return None
    without = Shape((*shape[:1], *shape[2:])) if len(shape) > 1 else Shape()
    if len(target) not in {len(shape), len(without)}:
        raise ShapeMismatchError(f"a target of {len(target)} dimensions for an input of {len(shape)}")
    for one, other in zip(target, without if len(target) == len(without) else shape, strict=True):
        if isinstance(one, int) and isinstance(other, int) and one != other:
            raise ShapeMismatchError(f"a target of size {one} for an input of size {other}")
    return _reduced(call, without)


def cosine_similarity(call: Mapping[str, object]) -> Result:
    """Return the common shape without `dim`."""
    shapes = [value for value in call.values() if isinstance(value, Shape)]
    shape = broadcast(shapes)
    place = axis(call, len(shape))
    return None if place is None or not shape else Shape((*shape[:place], *shape[place + 1 :]))


def attention(call: Mapping[str, object]) -> Result:
    """Return the shape of `scaled_dot_product_attention`: that of the query, as wide as the value."""
    query, value = tensor(call, "query"), tensor(call, "value")
    if query is None or value is None or not query or not value:
        return None
    return Shape((*query[:-1], value[-1]))


def distances(call: Mapping[str, object]) -> Result:
    """Return the shape of `cdist`: rows of the first by rows of the second."""
    one, other = tensor(call, "x1"), tensor(call, "x2")
    if one is None or other is None or min(len(one), len(other)) < 2:  # noqa: PLR2004
        return None
    return Shape((*broadcast([Shape(one[:-2]), Shape(other[:-2])]), one[-2], other[-2]))


def letters(call: Mapping[str, object]) -> Result:
    """Return the shape of `einsum`, by the letters of its equation."""
    equation = call.get("equation")
    operands = call.get("operands")
    if not isinstance(equation, str) or not isinstance(operands, LISTS) or "..." in equation:
        return None
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    groups = inputs.split(",")
    if len(groups) != len(operands):
        return None
    sizes: dict[str, Size] = {}
    for group, shape in zip(groups, operands, strict=True):
        if not isinstance(shape, Shape) or len(shape) != len(group):
            return None
        for letter, size in zip(group, shape, strict=True):
            sizes[letter] = broadcast([Shape((sizes[letter],)), Shape((size,))])[0] if letter in sizes else size
    if not arrow:
        joined = "".join(groups)
        output = "".join(sorted(letter for letter in sizes if joined.count(letter) == 1))
    return Shape(sizes[letter] for letter in output) if set(output) <= set(sizes) else None


def diagonal(call: Mapping[str, object]) -> Result:
    """Return the shape of `diagonal`: two dimensions become one at the end."""
    shape, offset = tensor(call), call.get("offset", 0)
    if shape is None or not isinstance(offset, int):
        return None
    first, second = axis(call, len(shape), "dim1"), axis(call, len(shape), "dim2")
    if first is None or second is None or first == second:
        return None
    rows, columns = shape[first], shape[second]
    rest = (size for place, size in enumerate(shape) if place not in {first, second})
    if not isinstance(rows, int) or not isinstance(columns, int):
        return Shape((*rest, None))
    return Shape((*rest, max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))))


def square(call: Mapping[str, object]) -> Result:
    """Return the shape of `eye`."""
    rows = call.get("n")
    columns = call.get("m", rows)
    return None if rows is UNKNOWN or columns is UNKNOWN else Shape((rows, rows if columns is None else columns))


def count(call: Mapping[str, object]) -> Result:
    """Return the shape of `arange`, whose limits are ints."""
    start, end, step = call.get("start", 0), call.get("end"), call.get("step", 1)
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(step, int) or not step:
        return Shape((None,))
    return Shape((max(0, -((start - end) // step)),))


def steps(call: Mapping[str, object]) -> Result:
    """Return the shape of `linspace`: as many elements as an argument says."""
    number = argument(call, "steps") if "steps" in call else call.get("n")
    return Shape((number if isinstance(number, int) else None,))


def last_dimension(call: Mapping[str, object]) -> Result:
    """Return the shape of `glu`: a dimension becomes half as long."""
    shape = tensor(call)
    place = None if shape is None else axis(call, len(shape))
    size = None if shape is None or place is None else shape[place]
    if shape is None or place is None or not isinstance(size, int):
        return None
    return Shape((*shape[:place], size // 2, *shape[place + 1 :]))


def patches(call: Mapping[str, object]) -> Result:
    """Return the shape of `Tensor.unfold`: windows along a dimension, their elements at the end."""
    shape, size, step = tensor(call), call.get("size"), call.get("step")
    place = None if shape is None else axis(call, len(shape), "dimension")
    if shape is None or place is None or not isinstance(size, int) or not isinstance(step, int):
        return None
    return Shape((*shape[:place], _slid(shape[place], size, (step, 0, 1)), *shape[place + 1 :], size))


LAYER_RULES: dict[str, Callable[[Mapping[str, object]], Result]] = {
    "linear": linear,
    "embedding": embedding,
    "one hot": one_hot,
    "convolution": convolution,
    "transposed convolution": transposed_convolution,
    "pool 1d": pool1d,
    "pool 2d": pool2d,
    "pool 3d": pool3d,
    "adaptive pool 1d": adaptive_pool1d,
    "adaptive pool 2d": adaptive_pool2d,
    "adaptive pool 3d": adaptive_pool3d,
    "pad": padding,
    "interpolate": interpolation,
    "pixel shuffle": pixel_shuffle,
    "pixel unshuffle": pixel_unshuffle,
    "elementwise loss": elementwise_loss,
    "class loss": class_loss,
    "cosine similarity": cosine_similarity,
    "attention": attention,
    "distances": distances,
    "einsum": letters,
    "diagonal": diagonal,
    "eye": square,
    "arange": count,
    "steps": steps,
    "half": last_dimension,
    "patches": patches,
}
