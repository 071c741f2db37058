"""Names of exported pages, and relative links between them."""

from __future__ import annotations

import re
from hashlib import sha256
from posixpath import dirname, relpath
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

INDEX = "index.html"
_UNSAFE = re.compile(r"[^a-z0-9_-]+")
_LONGEST = 60
_DIGITS = 12
_SINGLE = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


def file_name(text: str) -> str:
    """Return a name without an extension for a text: different for different texts, also if case is ignored."""
    if _SINGLE.fullmatch(text):
        return text
    readable = _UNSAFE.sub("-", text.lower()).strip("-_")[:_LONGEST]
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{readable}-{digest}" if readable else digest


def page_file(address: str) -> str:
    """Return the file of a page of the server, relative to the folder of the export.

    Args:
        address: Path and query of the page. The query of the list is not part of its file: the list reads it.
    """
    split = urlsplit(address)
    parts = [unquote(part) for part in split.path.split("/") if part]
    query = parse_qsl(split.query)
    match parts:
        case []:
            return INDEX
        case ["static", name]:
            return f"static/{name}"
        case ["certificates", certificate, "record"]:
            return f"certificates/{file_name(certificate)}.json"
        case ["file"]:
            return f"files/{file_name(dict(query).get('path', ''))}.html"
        case _:
            folders = [file_name(part) for part in (parts[0], "/".join(parts[1:])) if part]
            return f"{_with_query('/'.join(folders), query)}.html"


def _with_query(name: str, query: Sequence[tuple[str, str]]) -> str:
    return "-".join((name, *(f"{file_name(key)}-{file_name(value)}" for key, value in query)))


class PageLinks:
    """Links of exported pages; remembers which pages they lead to."""

    def __init__(self) -> None:
        """Know no page."""
        self._files: dict[str, str] = {}
        self._page = INDEX
        self.waiting: list[str] = []

    def enter(self, address: str) -> str:
        """Begin a page, from which links are relative, and return its file."""
        self._page = page_file(address)
        return self._page

    def add(self, address: str) -> None:
        """Remember a page to write, once."""
        name = page_file(address)
        if name not in self._files:
            self._files[name] = address
            self.waiting.append(address)

    def link(self, address: str) -> str:
        """Return the link from the page to an address of the server."""
        split = urlsplit(address)
        is_list = split.path == "/"
        self.add("/" if is_list else address)
        name = relpath(page_file(address), dirname(self._page) or ".")
        return f"{name}?{split.query}" if is_list and split.query else name
