"""Escape untrusted text for Markdown and terminal views.

Character classes are written out instead of derived from `unicodedata`: views are compared byte for byte, and
Python's Unicode data changes between versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

LONGEST_PROSE = 2000
LONGEST_CODE = 500
MOST_LINES = 40
_FENCE_WIDTH = 3
_EMPTY = "(empty)"
_BROKEN_BAR = "\u00a6"

# Control characters; zero-width, bidirectional and filler characters, variation selectors; other line ends;
# surrogates, private use and non-characters.
_INVISIBLE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
_SPACES = re.compile("[ \t\n\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
# These look like spaces in source code, but are not.
_ODD_SPACE = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")
# GitHub turns these into links, mentions and emoji, even after a backslash.
_LIVELY = re.compile(r"@|://|www\.|mailto:|xmpp:|:(?:[a-z+-][a-z0-9_+-]*|100|1234|8ball):", re.IGNORECASE)
# Part of whatever the patterns above and below find: most texts have none, and need no look at each word.
_ANY_MARK = re.compile(r"[\\`*\[\]<>&|~$_@:]|www\.", re.IGNORECASE)
_MARKUP = re.compile(r"[\\`*\[\]<>&|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"[#+=-]|[0-9]+[.)](?= |$)")
_QUOTED = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_FIELD = re.compile(r"\*\*(?=[A-Za-z][A-Za-z /]*:?\*\*)")
_BACKTICKS = re.compile("`+")


@dataclass(frozen=True, slots=True)
class EscapedText:
    """Escaped text for a view; not a `str`, so that any string operation gives untrusted text again.

    Attributes:
        text: Escaped text.
    """

    text: str


class TextEscaper(Protocol):
    """Escaper of untrusted text for one view format."""

    def prose(self, text: str) -> EscapedText:
        """Return text as part of a line."""
        ...

    def code(self, text: str) -> EscapedText:
        """Return a path, a command or a name as part of a line."""
        ...

    def cell(self, text: str) -> EscapedText:
        """Return text as a table cell."""
        ...

    def fence(self, text: str, first: int = 1, indent: int = 0) -> EscapedText:
        """Return text as a block of numbered lines; the template indents the first line."""
        ...


def visible(text: str) -> str:
    r"""Return text on one line: invisible characters as escapes (`\u202e`), white space as one space."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    return _SPACES.sub(" ", _INVISIBLE.sub(_escape, _SPACES.sub(" ", text))).strip()


def shortened(text: str, most: int) -> str:
    """Return at most `most` characters of a text, with the number of omitted ones."""
    return text if len(text) <= most else f"{text[:most]} ... ({len(text) - most} more characters in the record)"


def source_lines(text: str, most: int = MOST_LINES) -> tuple[list[str], int]:
    """Return the first lines of a text with invisible characters escaped, and the number of omitted lines."""
    lines = text.split("\n")
    shown = [_ODD_SPACE.sub(_escape, _INVISIBLE.sub(_escape, line.expandtabs(4))) for line in lines[:most]]
    return [shortened(line, LONGEST_CODE) for line in shown], len(lines) - len(shown)


class MarkdownInk:
    """Escaper for CommonMark and GitHub's Markdown."""

    def prose(self, text: str) -> EscapedText:
        """Return text without active markup, except that text in single backticks becomes code.

        Words that would turn into links become code, too.
        """
        line = shortened(visible(text), LONGEST_PROSE)
        if "`" in line:
            # Odd parts were in backticks.
            line = _joined([_span(part) if at % 2 else _unmarked(part) for at, part in enumerate(_QUOTED.split(line))])
        else:
            line = _unmarked(line)
        start = _BLOCK_START.match(line)
        if start:
            line = f"{line[: start.end() - 1]}\\{line[start.end() - 1 :]}"
        return EscapedText(line or _EMPTY)

    def code(self, text: str) -> EscapedText:
        """Return text as a code span."""
        line = shortened(visible(text), LONGEST_CODE)
        return EscapedText(_span(line) if line else _EMPTY)

    def cell(self, text: str) -> EscapedText:
        """Return text without a `|`: parsers disagree on which of them end a cell, especially in code."""
        return self.prose(text.replace("|", _BROKEN_BAR))

    def fence(self, text: str, first: int = 1, indent: int = 0) -> EscapedText:
        """Return text as a fenced block; every line starts with its number, so that none can start with markup."""
        lines = _numbered(text, first)
        longest = max((len(run) for line in lines for run in _BACKTICKS.findall(line)), default=0)
        ticks = "`" * max(_FENCE_WIDTH, longest + 1)
        block = (f"{ticks}text", *(_FIELD.sub(r"*\\*", line) for line in lines), ticks)
        return EscapedText(f"\n{' ' * indent}".join(block))


class TerminalInk:
    """Escaper for terminals: plain text without escape sequences."""

    def prose(self, text: str) -> EscapedText:
        """Return text unchanged, on one line."""
        return EscapedText(shortened(visible(text), LONGEST_PROSE) or _EMPTY)

    def code(self, text: str) -> EscapedText:
        """Return text unchanged, on one line."""
        return EscapedText(shortened(visible(text), LONGEST_CODE) or _EMPTY)

    def cell(self, text: str) -> EscapedText:
        """Return text unchanged, on one line."""
        return self.prose(text)

    def fence(self, text: str, first: int = 1, indent: int = 0) -> EscapedText:
        """Return numbered lines."""
        return EscapedText(f"\n{' ' * indent}".join(_numbered(text, first)))


def _joined(pieces: list[str]) -> str:
    line = ""
    for piece in pieces:
        # Two adjacent code spans would read as one.
        line += f" {piece}" if line.endswith("`") and piece.startswith("`") else piece
    return line


def _unmarked(text: str) -> str:
    if not _ANY_MARK.search(text):
        return text
    return " ".join(_span(word) if _LIVELY.search(word) else _MARKUP.sub(r"\\\g<0>", word) for word in text.split(" "))


def _span(line: str) -> str:
    shown = _FIELD.sub(r"*\\*", line)
    ticks = "`" * (max((len(run) for run in _BACKTICKS.findall(shown)), default=0) + 1)
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def _numbered(text: str, first: int) -> list[str]:
    lines, left = source_lines(text)
    numbered = [f"{first + at} | {line}".rstrip() for at, line in enumerate(lines)]
    return [*numbered, f"and {left} more lines in the record"] if left else numbered


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the last of the first plane
