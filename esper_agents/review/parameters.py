"""How many dimensions the parameters of a module have, as far as its layers say it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class

_WITHOUT = pattern(
    r"(?:Re|E|Ce|Se|Ge)LU|ReLU6|SiLU|Mish|Tanh|Sigmoid|Softmax|Hard\w+|Identity|Flatten|Unflatten|\w*Dropout\w*"
    r"|(?:Max|Avg|Adaptive)\w*Pool\w*|Upsample\w*|Sequential|Module(?:List|Dict)|\w*Loss|LeakyReLU|LogSoftmax|PixelShuffle"
)
_NORMS = pattern(
    r"(?:Sync)?BatchNorm\w*|LayerNorm|GroupNorm|RMSNorm|Transformer\w*|MultiheadAttention|LSTM|GRU|RNN|PReLU"
)
_CONVOLUTION = pattern(r"Conv(?:Transpose)?[123]d")
_PLAIN = frozenset({"super", "range", "len", "int", "list", "zip", "enumerate", "print", "isinstance", "max", "min"})


@dataclass(frozen=True, slots=True)
class Dimensions:
    """What is known of a module's parameters.

    Attributes:
        has_vectors: Whether some surely have one dimension: biases, norms.
        has_norms: Whether some of those belong to norms, and are called `weight`.
        has_kernels: Whether some surely have three or more: convolutions.
        is_whole: Whether all layers are known.
    """

    has_vectors: bool
    has_norms: bool
    has_kernels: bool
    is_whole: bool


def dimensions(owner: Class, index: ProjectIndex) -> Dimensions:
    """Return what is known of the parameters of a module of these files, those of its parts included."""
    parts, calls, is_whole = [owner], list[tuple["Call", str]](), True
    for part in parts:
        lineage = index.lineage(part)
        is_whole &= lineage.foreign <= {"torch.nn.Module", "torch.nn.modules.module.Module"}
        for call in _layers(part, index):
            inner = index.class_named(call.name, call.function.file)
            if inner is None:
                calls.append((call, resolve(dotted(call.node.func), call.function)))
            elif inner not in parts:
                parts.append(inner)
    layers = [(call, tail_of(name)) for call, name in calls if name.startswith("torch.nn.")]
    unknown = [name for _, name in calls if not name.startswith("torch.") and name.partition("(")[0] not in _PLAIN]
    known = all(_is_known(layer) for _, layer in layers)
    return Dimensions(
        any(_NORMS.fullmatch(layer) or _has_bias(call, layer) for call, layer in layers),
        any(_NORMS.fullmatch(layer) for _, layer in layers),
        any(_CONVOLUTION.fullmatch(layer) for _, layer in layers),
        is_whole and known and not unknown,
    )


def is_layer_without_matrix(name: str, attribute: str) -> bool:
    """Return whether an attribute of a layer of torch, `weight` or `bias`, surely does not have two dimensions."""
    if not name.startswith("torch.nn."):
        return False
    layer = tail_of(name)
    is_kernel = _CONVOLUTION.fullmatch(layer) is not None
    if attribute == "bias":
        return is_kernel or layer == "Linear"
    return is_kernel or layer in {"LayerNorm", "GroupNorm", "RMSNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"}


def _layers(owner: Class, index: ProjectIndex) -> Iterator[Call]:
    for base in index.lineage(owner).classes:
        if "__init__" in base.methods:
            yield from base.methods["__init__"].calls
            return


def _is_known(layer: str) -> bool:
    patterns = (_WITHOUT, _NORMS, _CONVOLUTION, re.compile(r"Linear|Bilinear|Embedding|EmbeddingBag"))
    return any(each.fullmatch(layer) for each in patterns)


def _has_bias(call: Call, layer: str) -> bool:
    if layer != "Linear" and not _CONVOLUTION.fullmatch(layer):
        return False
    said = next((keyword.value for keyword in call.node.keywords if keyword.arg == "bias"), None)
    place = 2 if layer == "Linear" else None
    said = said or (call.argument(place) if place is not None else None)
    return not call.has_splat() and (said is None or (isinstance(said, ast.Constant) and said.value is True))
