"""Calls and shapes that a request writes as code, such as `Net(dim=64)` and `input (2, 50, 256)`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"(?:(?P<alias>[A-Za-z_][\w.]*)\s*=\s*)?(?<![\w.])(?P<name>[A-Za-z_][\w.]*)\(")
_SHAPE = re.compile(r"(?<![\w\])])[(\[]\s*(\d{1,5}(?:\s*,\s*\d{1,5}){1,4})\s*,?\s*[)\]]")
_IMAGE = re.compile(r"(?<![\w.])(?:(?P<channels>\d)\s?x\s?)?(?P<height>\d{2,4})\s?x\s?(?P<width>\d{2,4})(?!\s?x|\w)")
_COLOUR, _GREY = re.compile(r"\b(?:rgb|colou?r|farb\w*)\b", re.IGNORECASE), re.compile(r"\bgr[ae]y", re.IGNORECASE)
_MOST_CALLS, _LONGEST, _MOST_READ, _MOST_ELEMENTS = 8, 400, 20_000, 2**24


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """Call in the words of a request.

    Attributes:
        name: Last part of the called name: `median` of `torchcrepe.filter.median(...)`.
        arguments: Its arguments, with `...` for each that is not a literal.
        alias: Last part of the name that the result is assigned to, else empty.
    """

    name: str
    arguments: str
    alias: str = ""


def written_calls(text: str) -> tuple[WrittenCall, ...]:
    """Return the calls of a text in the order of its words, at most eight."""
    found = (_call(match, text) for match in _NAME.finditer(text[:_MOST_READ]))
    return tuple(islice((each for each in found if each is not None), _MOST_CALLS))


def _call(match: re.Match[str], text: str) -> WrittenCall | None:
    inner = _inner(text, match.end())
    try:
        node = ast.parse(f"f({inner})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(node, ast.Call):
        return None
    alias = (match["alias"] or "").rpartition(".")[2]
    return WrittenCall(match["name"].rpartition(".")[2], ", ".join(_arguments(node)), alias)


def _inner(text: str, begin: int) -> str:
    """Return the text up to the bracket that closes the one before a position; text without one is no code."""
    depth = 1
    for at in range(begin, min(len(text), begin + _LONGEST)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if not depth:
            return text[begin:at]
    return "("


def _arguments(node: ast.Call) -> Iterator[str]:
    for each in node.args:
        if isinstance(each, ast.Starred):
            return
        yield _literal(each)
    yield from (f"{each.arg}={_literal(each.value)}" for each in node.keywords if each.arg)


def _literal(node: ast.expr) -> str:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return "..."
    return repr(value) if isinstance(value, int | float | str | bool | tuple | list | None) else "..."


def calls_of(name: str, text: str) -> tuple[str, str]:
    """Return the arguments with which a text constructs a class, and those with which it calls the object.

    Of a function, the second ones are the arguments of its call. Both are empty if the text writes no such call.

    Args:
        name: Name of the class or function.
        text: Words of a request.
    """
    calls = written_calls(text)
    own = next((each for each in calls if each.name == name), None)
    if not name[:1].isupper():
        return "", own.arguments if own else ""
    aliases = {name.lower(), own.alias if own else ""} - {""}
    called = next((each.arguments for each in calls if each.name in aliases and each.name != name), "")
    return own.arguments if own else "", called


def written_shape(text: str) -> str:
    """Return the sizes of an input that a text writes, as `2,50,256`; empty if it writes none."""
    for match in islice(_SHAPE.finditer(text[:_MOST_READ]), _MOST_CALLS):
        sizes = [int(each) for each in match[1].split(",")]
        if all(sizes) and _product(sizes) <= _MOST_ELEMENTS:
            return ",".join(map(str, sizes))
    image = _IMAGE.search(text[:_MOST_READ])
    if image is None:
        return ""
    channels = image["channels"] or ("3" if _COLOUR.search(text) else "1" if _GREY.search(text) else "")
    return f"2,{channels},{image['height']},{image['width']}" if channels else ""


def _product(sizes: list[int]) -> int:
    product = 1
    for each in sizes:
        product *= each
    return product
