"""ESP221: a boolean mask whose `True` means the opposite of what the attention reads."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.mask_meanings import KEPT, is_very_low, mask_of
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.mask_meanings import Mask
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SCALED = "torch.nn.functional.scaled_dot_product_attention"
# Arguments of torch's layers that are masks, by position; `True` means ignored in all of them.
_LAYERS: Mapping[str, Mapping[str, int]] = {
    "torch.nn.MultiheadAttention": {"key_padding_mask": 3, "attn_mask": 5},
    "torch.nn.TransformerEncoder": {"mask": 1, "src_key_padding_mask": 2},
    "torch.nn.TransformerEncoderLayer": {"src_mask": 1, "src_key_padding_mask": 2},
    "torch.nn.TransformerDecoder": {
        "tgt_mask": 2,
        "memory_mask": 3,
        "tgt_key_padding_mask": 4,
        "memory_key_padding_mask": 5,
    },
    "torch.nn.Transformer": {
        "src_mask": 2,
        "tgt_mask": 3,
        "memory_mask": 4,
        "src_key_padding_mask": 5,
        "tgt_key_padding_mask": 6,
        "memory_key_padding_mask": 7,
    },
}
_LAYERS_BY_NAME = {**_LAYERS, "torch.nn.TransformerDecoderLayer": _LAYERS["torch.nn.TransformerDecoder"]}
# Names of arguments that torch's layers alone have.
_OWN = frozenset({"src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask"})
# A position at which nothing is passed: by keyword alone.
_KEYWORD = 99


class MaskPolarity(Rule):
    """A mask that hides what attention should see and shows what it should not.

    ## Why it costs
    `nn.MultiheadAttention` and `nn.Transformer` ignore where a boolean mask is `True`;
    `scaled_dot_product_attention` reads where it is `True`. The wrong way round, tokens attend to padding alone, or to
    the future alone: there is no error, and the model learns from the wrong positions.

    ## When it is right
    A mask of another meaning than its expression shows, such as `ids != pad` where `pad` is a token to read. Only
    masks are judged whose meaning is known on all ways: comparisons with a padding id, positions compared with
    lengths, triangles of ones, and what `~` makes of them.

    ## Sources
    PyTorch documentation of `torch.nn.MultiheadAttention` (`key_padding_mask`, `attn_mask`) and of
    `torch.nn.functional.scaled_dot_product_attention` (`attn_mask`).
    """

    code, name = "ESP221", "mask-polarity"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Encoder(nn.Module):\n"
        "    def __init__(self, pad_id):\n"
        "        super().__init__()\n"
        "        self.pad_id = pad_id\n"
        "        self.embed = nn.Embedding(1000, 64)\n"
        "        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)\n"
        "\n"
        "    def forward(self, ids):\n"
        "        x = self.embed(ids)\n"
        "        return self.attention(x, x, x, key_padding_mask=ids != self.pad_id)[0]\n"
    )
    good = bad.replace("ids != self.pad_id", "ids == self.pad_id")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the masks that mean the opposite of what they are read as."""
        for call in file.calls:
            if call.name == _SCALED:
                yield from self._scaled(call, index)
            elif call.tail in {"masked_fill", "masked_fill_"}:
                yield from self._filled(call, index)
            elif (masks := masks_of(call, index)) is not None:
                for name, position in masks.items():
                    yield from self._layer(call, name, call.argument(position, name), index)

    def _layer(self, call: Call, name: str, value: ast.expr | None, index: ProjectIndex) -> Iterator[RuleMatch]:
        found = mask_of(value, call.function, call.line, index) if value is not None else None
        if value is None or found is None:
            return
        if not found.is_boolean:
            yield self._added(value, call, found, f"`{name}` adds", ignores=True)
        elif found.meaning in KEPT:
            yield self._found(value, call, found, f"`{name}` ignores where it is `True`")

    def _scaled(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        value = call.argument(3, "attn_mask")
        found = mask_of(value, call.function, call.line, index) if value is not None else None
        if value is None or found is None:
            return
        if not found.is_boolean:
            yield self._added(value, call, found, "`scaled_dot_product_attention` adds", ignores=False)
        elif found.meaning not in KEPT:
            yield self._found(value, call, found, "`scaled_dot_product_attention` reads where it is `True`")

    def _added(self, value: ast.expr, call: Call, found: Mask, effect: str, *, ignores: bool) -> RuleMatch:
        """Return the match of a mask of the numbers 0 and 1."""
        shown = f"{ast.unparse(value)}.bool()"
        return self.hit(
            value,
            f"this mask holds the numbers 0 and 1 ({_where(found, call)}), and {effect} numbers to the scores: "
            "it hides nothing",
            remedy=f"pass `~{shown}`" if (found.meaning in KEPT) is ignores else f"pass `{shown}`",
            confidence=Confidence.MODERATE,
            basis=FOLLOWED,
        )

    def _filled(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield scores that are made very low where a mask says that they count."""
        value, mask = call.argument(1, "value"), call.argument(0, "mask")
        if mask is None or value is None or not is_very_low(value, call.function):
            return
        found = mask_of(mask, call.function, call.line, index)
        if found is not None and found.is_boolean and found.meaning in KEPT and _is_before_softmax(call):
            yield self._found(mask, call, found, f"`{call.tail}` hides where it is `True`")

    def _found(self, value: ast.expr, call: Call, found: Mask, effect: str) -> RuleMatch:
        here = found.path == call.function.file.path and not found.is_by_name
        shown = ast.unparse(value)
        is_plain = isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        return self.hit(
            value,
            f"`True` means {found.meaning.value} in this mask ({_where(found, call)}), and {effect}",
            remedy=f"pass `~{shown}`" if is_plain else f"pass `~({shown})`",
            confidence=Confidence.HIGH if here else Confidence.MODERATE,
            basis=f"{INFERRED}: by the key of a dictionary" if found.is_by_name else SEEN if here else FOLLOWED,
            severity=Severity.WARNING if found.is_by_name else None,
        )


def _where(found: Mask, call: Call) -> str:
    here = found.path == call.function.file.path
    return f"line {found.line}" if here else f"{found.path}:{found.line}"


def masks_of(call: Call, index: ProjectIndex) -> Mapping[str, int] | None:
    """Return the masks among the arguments of a call of one of torch's attention layers."""
    names = {keyword.arg for keyword in call.node.keywords}
    if "(" in call.path or not (
        {name for masks in _LAYERS.values() for name in masks} & names or len(call.node.args) > 1
    ):
        return None
    for origin in index.origins(call.node.func, call.function, call.line):
        if isinstance(origin.value, ast.Call):
            masks = _LAYERS_BY_NAME.get(resolve(dotted(origin.value.func), origin.function))
            if masks is not None:
                return masks
    if names & _OWN and not index.callees(call) and not index.class_called(call.node, call.function):
        return {name: _KEYWORD for name in _OWN if name in names}
    return None


def _is_before_softmax(call: Call) -> bool:
    """Return whether the function takes a softmax after a call: what is filled are scores."""
    return any(each.tail in {"softmax", "log_softmax"} and each.line >= call.line for each in call.function.calls)
