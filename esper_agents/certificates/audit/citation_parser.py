"""Find cited files and lines in text, in the notations that people and models use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_LINE = 4000
_MOST_IN_A_LINE = 50
_LOOKS_AROUND = 120

# Each character class below is scanned once from left to right, so no input is slow.
_RUN = re.compile(r"[\w.@~+/\\-]{3,300}")
_NUMBER = r"L?(\d{1,7})(?!\d|\.\d)"
_RANGE = rf"{_NUMBER}(?:\s?(?:-|\u2013|\u2014|to|through)\s?{_NUMBER})?"
_CLOSING = r"[`*_\]\)\"']{0,4}"
_COLON = re.compile(rf"{_CLOSING}:{_RANGE}(?:,{_RANGE})?")
_ANCHOR = re.compile(rf"#{_RANGE}")
_AFTER = rf"{_CLOSING}[\s,:\u2013\u2014(\[-]{{0,4}}(?:at |on |in )?"
_LINE_AFTER = re.compile(rf"{_AFTER}(?i:line):? {{0,2}}{_RANGE}")
# Only the plural accepts a list: in "line 12, 2026" the second number is not a line.
_LINES_AFTER = re.compile(rf"{_AFTER}(?i:lines):? {{0,2}}{_RANGE}(?:(?:, ?| and | & ){_RANGE}){{0,20}}")
_LINES_OF = re.compile(rf"(?i:lines)? {_RANGE} (?:of|in) [`*_\[(\"']{{0,4}}$")
_EACH_RANGE = re.compile(_RANGE)
_NOT_THERE = re.compile(
    r"\b(?:missing|absent|lack(?:s|ing)?|not found|no such|not exist|no longer|create|creating|add|adding|new file|"
    r"propos\w*|should|planned|to be|will|would|removed?|removing|deleted?|deleting|renamed?|renaming|suggest\w*|"
    r"recommend\w*|e\.g|example|such as|generated?|generates|generating|output|if)\b",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]<>#|!~&])|`+")
_BACKTICKS = re.compile("`+")
_COMMIT = re.compile(r"\b(?:commit|revision|rev|sha)\b[\s:`*_(]{1,6}([0-9a-f]{7,40})\b", re.IGNORECASE)

_EXTENSIONS = """
py pyi ipynb pyx pxd js mjs cjs jsx ts tsx vue css scss html htm md rst txt toml yaml yml json jsonl cfg ini conf env
sh bash ps1 c cc cpp cxx h hh hpp cu cuh rs go java kt scala rb php sql proto xml csv tsv lock mk cmake ex exs swift lua
r jl pl svg log j2 tf gradle pt pth onnx safetensors npz pkl parquet db png whl
"""
EXTENSIONS = frozenset(_EXTENSIONS.split())
_NAMES = frozenset(("Makefile", "Dockerfile", "LICENSE", "Jenkinsfile", "Justfile", "CODEOWNERS"))
# Libraries whose names look like file names.
_LIBRARIES = frozenset(
    f"{name}.js"
    for name in (
        *("node", "vue", "chart", "next", "three", "d3", "express", "react", "nuxt", "plotly", "p5", "alpine", "ember"),
        *("backbone", "angular", "moment", "tensorflow", "require", "discord", "nest", "socket", "babylon", "pixi"),
    )
)
# Extensions that are also attribute names.
_ATTRIBUTES = frozenset(("c", "conf", "db", "env", "ex", "go", "h", "lock", "log", "pl", "pt", "r"))


@dataclass(frozen=True, slots=True)
class CitationMatch:
    """File that a line of text names.

    Attributes:
        path: Path as written.
        first: First cited line; None if no line is cited.
        last: Last cited line.
        is_of_what_is_not: Whether the words of the line state that the file is missing or yet to be created.
    """

    path: str
    first: int | None
    last: int | None
    is_of_what_is_not: bool


def cited_in(line: str) -> Iterator[CitationMatch]:
    """Yield the files that a line of text names: `a.py:12`, `a.py#L3-L9`, `a.py (lines 3-9)`, `lines 3 to 9 of a.py`.

    Without a line number, the words around a path decide whether it is said to exist. Links to other hosts, patterns
    such as `*.py`, and the names of well-known libraries are not files.
    """
    shown = line[:LONGEST_LINE]
    says_no = _NOT_THERE.search(shown) is not None
    found = 0
    for run in _RUN.finditer(shown):
        if "." not in run.group() and run.group() not in _NAMES:
            continue
        before, path = shown[: run.start()], run.group().rstrip(".-~+@\\")
        if found >= _MOST_IN_A_LINE or not _is_file(path, before):
            continue
        found += 1
        after = shown[run.start() + len(path) :][:_LOOKS_AROUND]
        ranges = _ranges(after, before[-_LOOKS_AROUND:])
        for first, last in ranges:
            yield CitationMatch(path, first, last, is_of_what_is_not=False)
        if not ranges and not _may_be_no_file(path, after):
            yield CitationMatch(path, None, None, says_no)


def without_escapes(line: str) -> str:
    r"""Return a line of Markdown as rendered, with `\_` as `_`; code spans have no escapes and are unchanged."""
    line = line[:LONGEST_LINE]
    ends: dict[int, int] = {}
    next_of_length: dict[int, int] = {}
    for run in reversed(list(_BACKTICKS.finditer(line))):
        length = len(run.group())
        ends[run.start()] = next_of_length.get(length, 0)
        next_of_length[length] = run.end()
    pieces, at = [], 0
    for found in _ESCAPED.finditer(line):
        if found.start() < at:
            continue
        end = found.end() if found[1] else ends.get(found.start()) or found.end()
        pieces += [line[at : found.start()], found[1] or line[found.start() : end]]
        at = end
    return "".join((*pieces, line[at:]))


def commits_in(line: str) -> list[str]:
    """Return the commits that a line names, in lower case."""
    return [each.lower() for each in _COMMIT.findall(line[:LONGEST_LINE])[:_MOST_IN_A_LINE]]


def _is_file(path: str, before: str) -> bool:
    name = re.split(r"[/\\]", path)[-1]
    if before.endswith(("*", "{", "<", "$", "%", "://", "?")) or path.startswith(("//", "...")) or "@" in path:
        # Bold text and patterns both begin with a star: a pattern continues after a slash or a dot.
        is_bold = before.endswith("**") and not path.startswith((".", "/", "_"))
        if not is_bold:
            return False
    if before.endswith(":") and path.startswith("//"):
        return False
    stem, dot, extension = name.rpartition(".")
    return name in _NAMES or (bool(stem.strip(".")) and bool(dot) and extension.lower() in EXTENSIONS)


def _may_be_no_file(path: str, after: str) -> bool:
    """Return whether a bare name may be a library or an attribute: `Node.js`, `math.log`, `response.json()`."""
    extension = path.rpartition(".")[2].lower()
    return "/" not in path and (path.lower() in _LIBRARIES or extension in _ATTRIBUTES or after.startswith("("))


def _ranges(after: str, before: str) -> list[tuple[int, int]]:
    if found := _COLON.match(after) or _ANCHOR.match(after):
        return _pairs(found.group())
    if found := _LINE_AFTER.match(after) or _LINES_AFTER.match(after):
        return _pairs(found.group())
    if found := _LINES_OF.search(before):
        return _pairs(found.group())
    return []


def _pairs(text: str) -> list[tuple[int, int]]:
    pairs = [(int(first), int(last or first)) for first, last in _EACH_RANGE.findall(text)]
    # `a.py:12:5` is a line and a column.
    return pairs[:20]
