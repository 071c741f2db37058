"""Passages of a project's documents: sections of Markdown and reStructuredText files, and docstrings."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from esper_agents.domain.text_lines import text_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENTS = (".md", ".rst", ".txt")
_MOST_LINES = 40
# A longer line is data; expressions over one could take a long time.
_LONGEST_LINE, _LONGEST_HEADING, _LONGEST_DOCSTRING = 2_000, 200, 20_000
_ATX = re.compile(r"#{1,6} +(?P<title>.+)")
_UNDERLINE = re.compile(r"(?P<sign>[=\-~^\"'#*+.])(?P=sign){2,}\s*$")
_FENCE = re.compile(r"\s*(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class TextSection:
    """A part of a document.

    Attributes:
        path: File, relative to the project.
        line: First line, from 1.
        end_line: Last line.
        heading: Heading of the section, or the name of the documented definition.
        text: The text, with its line ends.
    """

    path: str
    line: int
    end_line: int
    heading: str
    text: str


def sections_of(path: str, text: str) -> Iterator[TextSection]:
    """Yield the passages of a file: sections of at most 40 lines, or the docstrings of a Python file.

    Args:
        path: The file, relative to the project.
        text: Its content; Python that cannot be parsed has no passages.
    """
    yield from _docstrings(path, text) if path.endswith(".py") else _of_headings(path, text)


def _of_headings(path: str, text: str) -> Iterator[TextSection]:
    lines = [line.rstrip() if len(line) <= _LONGEST_LINE else "" for line in text_lines(text)]
    for (first, heading), (end, _) in pairwise([(0, ""), *_headings(lines), (len(lines), "")]):
        for begin in range(first, end, _MOST_LINES):
            part = lines[begin : min(begin + _MOST_LINES, end)]
            if any(line.strip() for line in part):
                yield TextSection(path, begin + 1, begin + len(part), heading, "\n".join(part))


def _headings(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the number of each heading's line, from 0, and its title; a comment in a code block is none."""
    is_code = False
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and (found := _ATX.fullmatch(line)):
            yield number, found["title"].strip()[:_LONGEST_HEADING]
        elif not is_code and number and lines[number - 1].strip() and _UNDERLINE.fullmatch(line):
            yield number - 1, lines[number - 1].strip()[:_LONGEST_HEADING]


def _docstrings(path: str, text: str) -> Iterator[TextSection]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            said = ast.get_docstring(node)
            if said and len(said) <= _LONGEST_DOCSTRING:
                yield TextSection(path, first.lineno, first.end_lineno or first.lineno, node.name, said)
