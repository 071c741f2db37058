"""Shape rules of layers and losses against random calls on the meta device."""

from __future__ import annotations

import random

import pytest

from esper_agents.review.model.layer_shape_rules import LAYER_RULES
from esper_agents.review.model.operators import names, operator
from esper_agents.review.model.shape_rules import Shape, ShapeMismatchError

F = "torch.nn.functional."
SIZES = (1, 2, 3, 5, 7, 8, 12)


def size(chance, low=1, high=12):
    return chance.randint(low, high)


def batch(chance, *rest):
    return Shape((*chance.sample(SIZES, chance.randint(0, 2)), *rest))


def window(chance, count):
    numbers = [size(chance, 1, 3) for _ in range(count)]
    return numbers[0] if chance.random() < 0.5 else numbers


def convolution(chance, count, *, is_transposed=False):
    groups, inner, outer = chance.choice((1, 1, 2)), size(chance, 1, 4), size(chance, 1, 4)
    kernel = [size(chance, 1, 3) for _ in range(count)]
    shape = Shape((*([2] * chance.randint(0, 1)), inner * groups, *(size(chance, 6, 12) for _ in range(count))))
    weight = Shape((inner * groups, outer, *kernel) if is_transposed else (outer * groups, inner, *kernel))
    named = {"stride": window(chance, count), "padding": window(chance, count), "groups": groups}
    if not is_transposed and chance.random() < 0.2:
        named |= {"padding": chance.choice(("same", "valid")), "stride": 1}
    return [shape, weight], named | {"dilation": size(chance, 1, 2)}


def pooling(chance, count):
    shape = Shape((2, 3, *(size(chance, 6, 12) for _ in range(count))))
    named = {"kernel_size": size(chance, 2, 4), "ceil_mode": chance.random() < 0.5, "padding": size(chance, 0, 1)}
    return [shape], named | ({"stride": window(chance, count)} if chance.random() < 0.7 else {})


def adaptive(chance, count):
    sizes = [chance.choice((None, 1, 3)) for _ in range(count)]
    output = size(chance, 1, 4) if count == 1 or chance.random() < 0.5 else sizes
    return [Shape((2, 3, *(size(chance, 4, 9) for _ in range(count)))), output], {}


def interpolation(chance):
    count = chance.randint(1, 3)
    shape = Shape((2, 3, *(size(chance, 4, 9) for _ in range(count))))
    named = {"size": size(chance)} if chance.random() < 0.5 else {"scale_factor": chance.choice((2, 0.5, 1.5))}
    return [shape], named


def elementwise(chance):
    shape = batch(chance, size(chance), size(chance))
    return [shape, shape], {"reduction": chance.choice(("mean", "sum", "none"))}


def classes(chance):
    rest = chance.sample(SIZES, chance.randint(0, 2))
    named = {"reduction": chance.choice(("mean", "sum", "none"))}
    return [Shape((4, 6, *rest)), Shape((4, *rest))], named


def letters(chance):
    equation, groups = chance.choice(
        (
            ("bij,bjk->bik", ("bij", "bjk")),
            ("ij->ji", ("ij",)),
            ("ij,jk", ("ij", "jk")),
            ("bhqd,bhkd->bhqk", ("bhqd", "bhkd")),
        )
    )
    sizes = {letter: size(chance) for letter in "".join(groups)}
    return [equation, *(Shape(sizes[letter] for letter in group) for group in groups)], {}


def attention(chance):
    heads, queries, keys, width, value = (size(chance) for _ in range(5))
    return [Shape((heads, queries, width)), Shape((heads, keys, width)), Shape((heads, keys, value))], {}


def unfold(chance):
    shape = Shape(size(chance, 4, 9) for _ in range(3))
    return [shape, chance.randrange(-3, 3), size(chance, 1, 4), size(chance, 1, 3)], {}


def diagonal(chance):
    shape = Shape(size(chance) for _ in range(3))
    first, second = chance.sample(range(-3, 0), 2)
    return [shape], {"offset": size(chance, -3, 3), "dim1": first, "dim2": second}


def similarity(chance):
    shape = Shape(size(chance) for _ in range(3))
    return [shape, Shape((1, *shape[1:]))], {"dim": chance.randrange(-3, 3)}


CALLS = {
    F + "linear": lambda chance: ([batch(chance, 5), Shape((size(chance), 5))], {}),
    F + "embedding": lambda chance: ([batch(chance, 4), Shape((9, size(chance)))], {}),
    F + "one_hot": lambda chance: ([batch(chance, 4), size(chance, 1, 9)], {}),
    **{f"{F}conv{n}d": lambda chance, n=n: convolution(chance, n) for n in (1, 2, 3)},
    **{f"{F}conv_transpose{n}d": lambda chance, n=n: convolution(chance, n, is_transposed=True) for n in (1, 2, 3)},
    **{f"{F}{kind}_pool{n}d": lambda chance, n=n: pooling(chance, n) for n in (1, 2, 3) for kind in ("max", "avg")},
    **{
        f"{F}adaptive_{kind}_pool{n}d": lambda chance, n=n: adaptive(chance, n)
        for n in (1, 2, 3)
        for kind in ("max", "avg")
    },
    F + "pad": lambda chance: ([Shape((2, 5, 7)), [size(chance, 0, 3) for _ in range(chance.choice((2, 4, 6)))]], {}),
    F + "interpolate": interpolation,
    F + "pixel_shuffle": lambda chance: ([batch(chance, 4 * size(chance), 5, 7), 2], {}),
    F + "pixel_unshuffle": lambda chance: ([batch(chance, 3, 2 * size(chance), 6), 2], {}),
    F + "mse_loss": elementwise,
    F + "l1_loss": elementwise,
    F + "kl_div": elementwise,
    F + "binary_cross_entropy_with_logits": elementwise,
    F + "cross_entropy": classes,
    F + "nll_loss": classes,
    F + "cosine_similarity": similarity,
    F + "scaled_dot_product_attention": attention,
    F + "glu": lambda chance: ([batch(chance, 2 * size(chance))], {}),
    "torch.cdist": lambda chance: ([Shape((2, 5, 3)), Shape((2, size(chance), 3))], {}),
    "torch.einsum": letters,
    "torch.diagonal": diagonal,
    "torch.eye": lambda chance: ([size(chance)] * chance.randint(1, 2), {}),
    "torch.arange": lambda chance: ([size(chance, -5, 5), size(chance, 6, 20), size(chance, 1, 3)], {}),
    "torch.linspace": lambda chance: ([0, 1, size(chance)], {}),
    "torch.Tensor.unfold": unfold,
}


def tensors(torch, name, values):
    """Return the arguments with tensors on the meta device for shapes; classes and indices are ints."""
    last = name.rpartition(".")[2]
    integers = {"embedding": 0, "one_hot": 0, "cross_entropy": 1, "nll_loss": 1}
    made = []
    for place, value in enumerate(values):
        dtype = torch.int64 if integers.get(last) == place else torch.float32
        made.append(torch.zeros(tuple(value), dtype=dtype, device="meta") if isinstance(value, Shape) else value)
    return made


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_the_rule_predicts_the_shapes_of_random_calls(name):
    torch = pytest.importorskip("torch")
    chance = random.Random(name)  # noqa: S311 - samples are no secrets
    function = torch
    for part in name.split(".")[1:]:
        function = getattr(function, part)
    tried = 0
    for _ in range(60):
        positional, named = CALLS[name](chance)
        try:
            made = function(*tensors(torch, name, positional), **named)
        except (RuntimeError, ValueError, NotImplementedError):
            # Torch has no kernel for it, or refuses the sizes.
            continue
        tried += 1
        expected = operator(name).result_shape(positional, named)
        assert expected == tuple(made.shape), (positional, named)
        if tried == 12:
            return
    assert tried > 3, name


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "positional"),
    [
        (F + "linear", [Shape((2, 3)), Shape((5, 4))]),
        (F + "conv1d", [Shape((1, 3, 8)), Shape((4, 2, 3))]),
        (F + "conv1d", [Shape((1, 3, 2)), Shape((4, 3, 5))]),
        (F + "mse_loss", [Shape((4, 3)), Shape((4, 2))]),
        (F + "nll_loss", [Shape((4, 10)), Shape((3,))]),
    ],
)
def test_sizes_that_the_rule_refuses_are_refused_by_torch(name, positional):
    torch = pytest.importorskip("torch")
    function = getattr(torch.nn.functional, name.rpartition(".")[2])
    with pytest.raises(ShapeMismatchError):
        operator(name).result_shape(positional)
    with pytest.raises((RuntimeError, ValueError)):
        function(*tensors(torch, name, positional))


def test_every_rule_of_layers_is_used_and_tried():
    used = {overload.shape for name in names() for overload in operator(name).overloads}
    tried = {overload.shape for name in CALLS for overload in operator(name).overloads}
    assert set(LAYER_RULES) <= used
    assert set(LAYER_RULES) <= tried
