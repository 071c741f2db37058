"""Parse front matter that is not valid YAML, key by key, isolating bad fields."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from esper_agents.agents.strict_yaml import (
    FieldContent,
    FrontMatterField,
    FrontMatterFields,
    NotStrictError,
    YamlWarning,
    read_strictly,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KEY_LINE = re.compile(r"(?P<key>[A-Za-z_][\w-]{0,40})[ \t]*:(?:[ \t]+(?P<rest>.*))?$")
_MOST_FIELDS = 200
_CAPITALS = frozenset(("Name", "Description", "Tools", "Model"))
# Lines of a dialogue inside a description that continues without indentation.
_SPEECH = frozenset(("user", "assistant", "human", "context", "action", "commentary"))
_BLOCK_MARK = re.compile(r"[|>][+-]?\d?[+-]?\s*$")
_ITEM = re.compile(r"\s*[-*]\s+(?P<item>.*)$")
_ESCAPE = re.compile(r'\\(["\\nt/])')
_ESCAPED = {"n": "\n", "t": "\t"}


@dataclass(frozen=True, slots=True)
class _Block:
    key: str
    line: int
    rest: str
    below: Sequence[str]


def read_loosely(front: Sequence[str], first_line: int) -> FrontMatterFields:
    """Return all fields that can be recognized; a field that is valid YAML on its own is parsed as YAML."""
    fields: dict[str, FrontMatterField] = {}
    remarks: list[YamlWarning] = []
    for block in _blocks(front, first_line, remarks):
        if block.key in fields:
            remarks.append(
                YamlWarning(block.line, f"second {block.key!r}; the first one is used", "delete one of the two")
            )
            continue
        fields[block.key] = _read_block(block, remarks)
    return FrontMatterFields(fields, tuple(remarks))


def _blocks(front: Sequence[str], first_line: int, remarks: list[YamlWarning]) -> Iterable[_Block]:
    starts = _starts(front)
    if len(starts) > _MOST_FIELDS:
        remarks.append(YamlWarning(first_line + starts[_MOST_FIELDS], "additional fields were ignored", "delete them"))
        front, starts = front[: starts[_MOST_FIELDS]], starts[:_MOST_FIELDS]
    if any(line.strip() for line in front[: starts[0] if starts else len(front)]):
        remarks.append(YamlWarning(first_line, "text above the first field was ignored", "delete it"))
    for start, end in pairwise((*starts, len(front))):
        match = KEY_LINE.match(front[start])
        if match:
            key = match["key"].lower() if match["key"] in _CAPITALS else match["key"]
            yield _Block(key, first_line + start, match["rest"] or "", front[start + 1 : end])


def _starts(front: Sequence[str]) -> list[int]:
    starts, inside_example = [], False
    for index, line in enumerate(front):
        match = KEY_LINE.match(line)
        if match and not inside_example and _is_field(match["key"]):
            starts.append(index)
        inside_example = line.rfind("<example>") > line.rfind("</example>") or (
            inside_example and "</example>" not in line
        )
    return starts


def _is_field(key: str) -> bool:
    return key in _CAPITALS or (key[0].islower() and key not in _SPEECH)


def _read_block(block: _Block, remarks: list[YamlWarning]) -> FrontMatterField:
    text = "\n".join((f"{block.key}: {block.rest}", *block.below))
    try:
        alone = read_strictly(text, block.line)
    except NotStrictError:
        return FrontMatterField(_loose_content(block), block.line, is_bare=not block.rest.startswith('"'))
    if set(alone.fields) != {block.key}:
        return FrontMatterField(_loose_content(block), block.line, is_bare=True)
    remarks.extend(alone.oddities)
    return alone.fields[block.key]


def _loose_content(block: _Block) -> FieldContent:
    rest, below = block.rest.strip(), [line for line in block.below if line.strip()]
    if _BLOCK_MARK.match(rest):
        return textwrap.dedent("\n".join(block.below)).strip()
    items = [_ITEM.match(line) for line in below]
    if not rest and items and all(items):
        return [_unquoted(item["item"]) for item in items if item]
    text = "\n".join((rest, *(line.strip() for line in block.below))).strip()
    if text.startswith("["):
        return [_unquoted(part) for part in text.strip("[] \n").split(",") if part.strip()]
    return _unquoted(text)


def _unquoted(text: str) -> str:
    text = text.strip()
    quote = text[:1]
    if quote not in ("'", '"') or not quote:
        return text
    inner = text[1:-1] if len(text) > 1 and text.endswith(quote) else text[1:]
    return inner.replace("''", "'") if quote == "'" else _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), inner)
