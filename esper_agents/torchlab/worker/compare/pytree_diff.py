"""Compare two returned pytrees leaf by leaf: structure, types, shapes, memory and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..target.pytrees import walk
from .numeric_error import of_float
from .tensor_bundle import Piece
from .tensor_bytes import BundleError
from .tolerance import Runs, ToleranceFit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

_Json = dict[str, Any]
# Properties of a tensor besides its numbers.
FORM = ("type", "dtype", "shape", "strides", "requires-grad")
_ORDER = ("structure", "comparable", *FORM, "values", "aliasing")
_ALWAYS = {*FORM, "values"}
_LIBRARIES = ("builtins.", "collections.", "torch.")
_MOST_TEXTS = 3


class OtherStructureError(Exception):
    """Structural difference of two pytrees."""


@dataclass
class LeafDifference:
    """Result of one check of two pytrees.

    Attributes:
        check: `structure`, `comparable`, `type`, `dtype`, `shape`, `strides`, `requires-grad`, `values` or `aliasing`.
        detail: The difference; empty without one.
        numbers: Measured numbers.
        is_less_exact: All numbers that are off are so; see `ToleranceFit`.
        not_numbers: Differences that are no fault, in words; see `ToleranceFit`.
    """

    check: str
    detail: str
    numbers: _Json = field(default_factory=dict)
    is_less_exact: bool = False
    not_numbers: str = ""


@dataclass
class Leaf:
    """One leaf position in two pytrees.

    Attributes:
        path: Path of the leaf, such as `output[0]`.
        number: Index of the leaf.
        one: Leaf of the first pytree: the record of a tensor, or a node.
        other: Leaf of the second pytree.
        runs: Both tensors, if their numbers can be compared.
    """

    path: str
    number: int
    one: _Json
    other: _Json
    runs: Runs | None


def compared(one: Piece, other: Piece, judge: Callable[[Leaf, Runs], ToleranceFit]) -> Iterator[LeafDifference]:
    """Yield every check of two pytrees, passed ones included.

    Args:
        one: Pytree of the baseline.
        other: Pytree of the candidate.
        judge: Judges the numbers of a leaf.
    """
    try:
        leaves = list(leaves_of(one, other))
    except BundleError as error:
        yield LeafDifference("comparable", str(error))
        return
    except OtherStructureError as error:
        yield LeafDifference("structure", str(error))
        return
    wrong: dict[str, list[str]] = {}
    fits: list[tuple[str, ToleranceFit]] = []
    for leaf in leaves:
        for name, detail in _leaf_differences(leaf.one, leaf.other):
            wrong.setdefault(name, []).append(f"{leaf.path} {detail}")
        if leaf.runs is not None:
            fits.append((leaf.path, judge(leaf, leaf.runs)))
    if _sharing(one) != _sharing(other):
        wrong["aliasing"] = ["what it returns shares memory in another way among itself"]
    for name in _ORDER:
        if name == "values":
            yield _of_values(wrong.get(name, []), fits)
        elif name in wrong or name in _ALWAYS:
            yield LeafDifference(name, "; ".join(wrong.get(name, [])[:_MOST_TEXTS]))


def _of_values(wrong: list[str], fits: list[tuple[str, ToleranceFit]]) -> LeafDifference:
    """Return the check of the numbers of all leaves, after those that are no tensors."""
    failed = [(path, found) for path, found in fits if not found.is_passed]
    told = next((found.numbers for _, found in reversed(failed) if found.numbers), {})
    numbers = told or next((found.numbers for _, found in fits if found.numbers), {})
    passed = [f"{path}: {found.not_numbers}" for path, found in fits if found.not_numbers]
    texts = [*wrong, *(f"{path}: {found.detail}" for path, found in failed)]
    is_close = bool(failed) and all(found.is_close for _, found in failed)
    return LeafDifference(
        "values",
        "; ".join(texts[:_MOST_TEXTS]),
        _told({**numbers, "is_close": is_close}),
        is_less_exact=bool(failed) and not wrong and all(found.is_less_exact for _, found in failed),
        not_numbers="; ".join(passed[:_MOST_TEXTS]),
    )


def _told(numbers: _Json) -> _Json:
    """Return numbers without what is not so."""
    return {name: each for name, each in numbers.items() if each is not False}


def leaves_of(one: Piece, other: Piece) -> Iterator[Leaf]:
    """Yield the leaves of two pytrees in pairs.

    Raises:
        OtherStructureError: Their structures differ.
        BundleError: The memory of one does not match its header.
    """
    text = _tree_text(one.tree, other.tree, "output")
    if text:
        raise OtherStructureError(text)
    left, right = one.views(), other.views()
    both = zip(walk(one.tree, "output"), walk(other.tree, "output"), strict=True)
    for number, ((path, node), (_, mirror)) in enumerate(both):
        if node["kind"] == "tensor":
            runs = _runs(left[node["tensor"]], right[mirror["tensor"]])
            yield Leaf(path, number, one.tensors[node["tensor"]], other.tensors[mirror["tensor"]], runs)
        elif node["kind"] == "scalar" and node["type"] == mirror["type"] == "builtins.float":
            like = float.fromhex(node["value"])
            runs = Runs(of_float(like, like), of_float(float.fromhex(mirror["value"]), like))
            yield Leaf(path, number, node, mirror, runs)
        else:
            yield Leaf(path, number, node, mirror, None)


def number_at(piece: Piece, number: int, like: torch.Tensor | None = None) -> torch.Tensor | None:
    """Return a pytree's leaf as a tensor, Python floats included; None if there is none."""
    if number >= len(piece.leaves()):
        return None
    node = piece.leaves()[number]
    if node["kind"] == "tensor":
        return piece.views()[node["tensor"]]
    if node["kind"] == "scalar" and node["type"] == "builtins.float":
        found = float.fromhex(node["value"])
        return of_float(found, found if like is None else float(like))
    return None


def without(node: _Json, names: set[str]) -> _Json:
    """Return the description of a pytree of dicts without the entries of these names."""
    if node["kind"] != "dict":
        return node
    kept = [(key, each) for key, each in zip(node["keys"], node["items"], strict=True) if key not in names]
    return {**node, "keys": [key for key, _ in kept], "items": [without(each, names) for _, each in kept]}


def without_zeros(one: Piece, other: Piece) -> tuple[Piece, Piece, int]:
    """Return two pytrees with None for zeros where the other has None, and how many those are."""
    count = 0

    def go(node: _Json, like: _Json, piece: Piece) -> _Json:
        nonlocal count
        if node["kind"] == "tensor" and like.get("type") == "NoneType":
            view = piece.views()[node["tensor"]]
            is_zero = view is not None and not bool(view.any())
            count += is_zero
            return like if is_zero else node
        if "items" not in node or len(like.get("items", ())) != len(node["items"]):
            return node
        return {**node, "items": [go(*both, piece) for both in zip(node["items"], like["items"], strict=True)]}

    trees = go(one.tree, other.tree, one), go(other.tree, one.tree, other)
    if not count:
        return one, other, 0
    made = [
        Piece(tree, each.tensors, each.storages, each.blocks) for tree, each in zip(trees, (one, other), strict=True)
    ]
    return made[0], made[1], count


def _runs(one: torch.Tensor | None, other: torch.Tensor | None) -> Runs | None:
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return None
    return Runs(one, other)


def _tree_text(one: _Json, other: _Json, path: str) -> str:
    """Return the difference of two container structures, in words; empty without one."""
    if one["kind"] != other["kind"]:
        return f"{path} is {_type_text(one)} in A and {_type_text(other)} in B"
    if "items" not in one:
        return ""
    if _short(one["type"]) != _short(other["type"]):
        return f"{path} is {_type_text(one)} in A and {_type_text(other)} in B"
    if len(one["items"]) != len(other["items"]) or one.get("keys") != other.get("keys"):
        ours, theirs = (each.get("keys", len(each["items"])) for each in (one, other))
        return f"{path} has the parts {ours!r:.80} in A and {theirs!r:.80} in B"
    keys = one.get("keys") or range(len(one["items"]))
    texts = (
        _tree_text(left, right, f"{path}[{key!r}]")
        for key, left, right in zip(keys, one["items"], other["items"], strict=True)
    )
    return next(filter(None, texts), "")


_KNOWN_TYPES = {"": "a tensor", "NoneType": "None"}


def _type_text(node: _Json) -> str:
    name = str(node.get("type", ""))
    return _KNOWN_TYPES.get(name.rpartition(".")[2], f"of type {name.removeprefix('builtins.')}")


def _short(name: str) -> str:
    """Return the name of a class, without the module if that is the user's: each arm may define it separately."""
    return name if name.startswith(_LIBRARIES) else name.rpartition(".")[2]


_SAID: dict[str, tuple[str, ...]] = {
    "type": ("type", "layout", "device"),
    "dtype": ("dtype",),
    "shape": ("shape",),
    "requires-grad": ("requires_grad", "is_inference"),
}


def _leaf_differences(one: _Json, other: _Json) -> Iterator[tuple[str, str]]:
    if "kind" in one:
        yield from _scalar_differences(one, other)
        return
    for name, keys in _SAID.items():
        for key in keys:
            # A normal tensor may be used wherever one of inference mode may.
            is_freer = key == "is_inference" and bool(one.get(key))
            if one.get(key) != other.get(key) and not is_freer:
                yield name, f"has {key} {one.get(key)} in A and {other.get(key)} in B"
    problem = one.get("problem") or other.get("problem")
    if problem:
        yield "comparable", f"cannot be compared: {problem}"
        return
    if one["shape"] == other["shape"] and _strides(one) != _strides(other):
        yield "strides", f"has strides {one['stride']} in A and {other['stride']} in B"
    if (one["is_conj"], one["is_neg"]) != (other["is_conj"], other["is_neg"]):
        yield "strides", "is conjugated or negated only when it is read"


def _strides(record: _Json) -> list[int]:
    """Return the significant strides: those of dimensions with more than one element."""
    if 0 in record["shape"]:
        return []
    return [step for step, size in zip(record["stride"], record["shape"], strict=True) if size > 1]


def _scalar_differences(one: _Json, other: _Json) -> Iterator[tuple[str, str]]:
    if one["type"] != other["type"]:
        yield "type", f"is {_type_text(one)} in A and {_type_text(other)} in B"
    elif one["kind"] == "opaque":
        yield "comparable", f"is a {one['type']}, which cannot be compared"
    elif one["type"] != "builtins.float" and one["value"] != other["value"]:
        yield "values", f"is {one['value']!r:.60} in A and {other['value']!r:.60} in B"


def _sharing(piece: Piece) -> list[int]:
    """Return for each leaf the first one that it shares memory with."""
    first: dict[int, int] = {}
    shared = []
    for number, node in enumerate(piece.leaves()):
        record: _Json = piece.tensors[node["tensor"]] if node["kind"] == "tensor" else {"shape": [0]}
        is_empty = "storage" not in record or 0 in record["shape"]
        shared.append(number if is_empty else first.setdefault(record["storage"], number))
    return shared
