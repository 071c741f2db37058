"""JSON in which every string knows where it stands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from esper_agents.review.patterns import pattern

_DECODER = json.JSONDecoder(strict=False)
_SPACE = pattern(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class LocatedString:
    """A string.

    Attributes:
        text: What it says.
        start: The offset of its opening quote.
    """

    text: str
    start: int


def read_located(content: str) -> Any:
    """Return what JSON text holds, with a `Text` for every string but the keys.

    Raises:
        json.JSONDecodeError: It is no JSON.
        RecursionError: It nests too deeply.
    """
    value, end = _value(content, _skip(content, 0))
    if _skip(content, end) != len(content):
        raise json.JSONDecodeError("Extra data", content, end)
    return value


def _skip(content: str, at: int) -> int:
    found = _SPACE.match(content, at)
    return found.end() if found else at


def _value(content: str, at: int) -> tuple[Any, int]:
    match content[at : at + 1]:
        case "{":
            return _object(content, at)
        case "[":
            return _array(content, at)
        case '"':
            text, end = _DECODER.raw_decode(content, at)
            return LocatedString(text, at), end
        case _:
            return _DECODER.raw_decode(content, at)


def _array(content: str, start: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _skip(content, start + 1)
    while not content.startswith("]", at):
        if found:
            at = _past(content, at, ",")
        value, end = _value(content, at)
        found.append(value)
        at = _skip(content, end)
    return found, at + 1


def _object(content: str, start: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    is_first = True
    at = _skip(content, start + 1)
    while not content.startswith("}", at):
        if not is_first:
            at = _past(content, at, ",")
        is_first = False
        if not content.startswith('"', at):
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", content, at)
        key, at = _DECODER.raw_decode(content, at)
        found[key], at = _value(content, _past(content, _skip(content, at), ":"))
        at = _skip(content, at)
    return found, at + 1


def _past(content: str, at: int, sign: str) -> int:
    if not content.startswith(sign, at):
        raise json.JSONDecodeError(f"Expecting '{sign}' delimiter", content, at)
    return _skip(content, at + 1)
