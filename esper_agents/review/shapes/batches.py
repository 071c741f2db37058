"""What data sets, loaders and data frames hand out, and what the libraries around torch make."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.names import tail_of
from esper_agents.review.shapes import algebra
from esper_agents.review.shapes.facts import (
    UNKNOWN,
    Batches,
    Fields,
    Items,
    Kind,
    Many,
    Number,
    Samples,
    Table,
    Tensor,
    Value,
    fresh,
    join,
)
from esper_agents.review.shapes.functions import copied
from esper_agents.review.shapes.functions import function as function_of
from esper_agents.review.shapes.sizes import Dim, Symbol

if TYPE_CHECKING:
    from esper_agents.review.shapes.given import Given

# Collections of torchvision that give an image and the number of its class, with the image's shape where it is fixed.
_IMAGES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST", "QMNIST"), (1, 28, 28)),
    **dict.fromkeys(("CIFAR10", "CIFAR100", "SVHN"), (3, 32, 32)),
    "STL10": (3, 96, 96),
    **dict.fromkeys(("ImageFolder", "DatasetFolder", "FakeData", "Food101", "Flowers102", "StanfordCars"), ()),
    **dict.fromkeys(("GTSRB", "EuroSAT", "Country211", "FGVCAircraft", "DTD", "PCAM", "ImageNet", "Caltech256"), ()),
}
# Transforms that leave the size of an image alone.
_SIZED_ALIKE = frozenset(
    {
        "ToTensor",
        "Normalize",
        "RandomHorizontalFlip",
        "RandomVerticalFlip",
        "ColorJitter",
        "RandomRotation",
        "RandomErasing",
    }
    | {
        "ToImage",
        "ToDtype",
        "ConvertImageDtype",
        "PILToTensor",
        "RandomAffine",
        "AutoAugment",
        "RandAugment",
        "GaussianBlur",
    }
)
_PASSING = frozenset(
    {"tqdm", "trange", "track", "prepare", "list", "iter", "tuple", "reversed", "islice", "cycle", "deepcopy"}
)
_SUBSETS = frozenset({"Subset", "ConcatDataset", "Cached", "CacheDataset"})
_LEARNED = frozenset(
    {"make_regression", "make_classification", "make_blobs", "make_moons", "make_circles", "make_friedman1"}
)


def external(name: str, given: Given, mark: str) -> Value:
    """Return what a call of a library gives; None where nothing is known of it.

    Args:
        name: Its resolved path.
        given: Its arguments.
        mark: What tells this call from others, for the name of a batch's size.
    """
    root, tail = name.partition(".")[0], tail_of(name)
    found: Value = None
    if tail == "DataLoader":
        found = _loader(given, mark)
    elif name.startswith("torch.utils.data."):
        found = _dataset(tail, given)
    elif root == "torchvision" and tail in _IMAGES:
        found = Samples(Items((Tensor(kind=Kind.FLOAT), Number())))
    elif root == "numpy":
        found = _numpy(name, tail, given)
    elif root == "pandas" and tail.startswith(("read_", "DataFrame")):
        found = Table()
    elif root == "sklearn":
        found = _sklearn(tail, given)
    elif tail in _PASSING and given.values:
        found = given.at(0)
    return found


def image_shape(name: str) -> tuple[int, ...]:
    """Return the shape of the images of a collection of torchvision; empty where they have no common one."""
    return _IMAGES.get(name, ())


def keeps_size(transforms: list[str]) -> bool:
    """Return whether transforms turn an image into a tensor and leave its size alone."""
    return (
        bool(transforms)
        and set(transforms) <= _SIZED_ALIKE | {"Compose"}
        and bool({"ToTensor", "ToImage"} & set(transforms))
    )


def _loader(given: Given, mark: str) -> Value:
    data = given.at(0, "dataset")
    if given.is_hidden or given.has(-1, "collate_fn") or given.has(-1, "batch_sampler"):
        return Batches(None)
    if isinstance(data, Many):
        data = Samples(data.value)
    if not isinstance(data, Samples):
        return Batches(None)
    if "batch_size" in given.named and given.named["batch_size"] is None:
        return Batches(None)
    return Batches(collated(data.value, Symbol(1, (f"batch@{mark}",))))


def collated(value: Value, batch: Dim) -> Value:
    """Return what the default collation makes of samples: each thing in them gets a first dimension."""
    match value:
        case Tensor():
            if value.is_open:
                return Tensor(value.dims, kind=value.kind, is_given=True, ones=tuple(one + 1 for one in value.ones))
            return fresh((batch, *value.dims), value.kind)
        case Number():
            return fresh((batch,))
        case Items(values):
            return Items(tuple(collated(each, batch) for each in values))
        case Fields(values):
            return Fields({key: collated(each, batch) for key, each in values.items()})
        case _:
            return None


def _dataset(tail: str, given: Given) -> Value:
    if tail == "TensorDataset" and not given.is_hidden:
        return Samples(Items(tuple(element(value) for value in given.values)))
    if tail == "random_split":
        return Many(given.at(0, "dataset"))
    if tail in _SUBSETS:
        first = given.at(0, "dataset")
        return join(first.values) if isinstance(first, Items) else first
    return None


def element(value: Value) -> Value:
    """Return what going over a value gives in each round."""
    match value:
        case Batches(one) | Samples(one) | Many(one):
            return one
        case Items(values):
            return join(values)
        case Tensor() if not value.is_open and value.dims:
            return algebra.without(value, 0)
        case _:
            return UNKNOWN if isinstance(value, Tensor) else None


def _numpy(name: str, tail: str, given: Given) -> Value:
    if name.startswith("numpy.random."):
        return _drawn(tail, given)
    if tail in {"array", "asarray", "float32", "float64", "atleast_1d"}:
        made = copied(given.at(0))
        return replace(made, is_array=True)
    if tail in {"load", "loadtxt", "genfromtxt", "fromfile"}:
        return Tensor(is_array=True)
    found = function_of(tail, given)
    return replace(found, is_array=True) if isinstance(found, Tensor) else found


def _drawn(tail: str, given: Given) -> Value:
    """Return what numpy's generators give."""
    if tail in {"rand", "randn"}:
        sizes = given.sizes() if given.values else ()
        return Tensor(is_array=True) if sizes is None else fresh(sizes, is_array=True)
    place = {"randint": 2, "uniform": 2, "normal": 2, "choice": 1, "random": 0, "standard_normal": 0}.get(tail)
    if tail == "permutation":
        return fresh((None,), is_array=True)
    if place is None:
        return None
    if not given.has(place, "size"):
        return Number()
    size = given.at(place, "size")
    if isinstance(size, Items):
        return fresh([value.dim if isinstance(value, Number) else None for value in size.values], is_array=True)
    return fresh((size.dim if isinstance(size, Number) else None,), is_array=True)


def _sklearn(tail: str, given: Given) -> Value:
    table, column = Tensor((None, None), False, is_array=True), Tensor((None,), False, is_array=True)
    if tail in _LEARNED:
        targets = given.number(-1, "n_targets", 1)
        return Items((table, column)) if targets == 1 else None
    if tail.startswith(("load_", "fetch_")):
        return (
            Items((table, column))
            if given.number(-1, "return_X_y", 0) == 1
            else Fields({"data": table, "target": column})
        )
    if tail == "train_test_split":
        return Items(tuple(_shortened(value) for value in given.values for _ in range(2)))
    return None


def _shortened(value: Value) -> Value:
    if isinstance(value, Tensor) and not value.is_open and value.dims:
        return replace(value, dims=(None, *value.dims[1:]))
    return value


def column_of(tail: str, given: Given) -> Value:
    """Return what a method of a data frame gives."""
    if tail in {"to_numpy", "values"}:
        return Tensor((None, None), False, is_array=True)
    if tail == "pop":
        return Tensor((None,), False, is_array=True)
    same = {
        "drop",
        "dropna",
        "fillna",
        "copy",
        "sample",
        "reset_index",
        "astype",
        "head",
        "tail",
        "query",
        "sort_values",
    }
    return Table() if tail in same and not (tail == "astype" and given.is_hidden) else None
