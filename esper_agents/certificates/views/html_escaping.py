"""Escape untrusted text for HTML, so that it can form no element or attribute."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from esper_agents.certificates.views.escaping import (
    LONGEST_CODE,
    LONGEST_PROSE,
    EscapedText,
    shortened,
    source_lines,
    visible,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_QUOTED = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# What `escape` replaces, and quotes of code.
_SPECIAL = re.compile("[&<>\"'`]")
_EMPTY = '<span class="quiet">(empty)</span>'
# Simplified Python highlighting for excerpts; a wrong match only changes the colour of a word.
_TOKEN = re.compile(
    r"(?P<comment>#.*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<number>\b[0-9][0-9_]*(?:\.[0-9_]+)?(?:e[+-]?[0-9]+)?\b)"
    r"|(?P<keyword>\b(?:and|as|assert|async|await|break|class|continue|def|del|elif|else|except|False|finally|for|from"
    r"|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield)\b)"
)


class HtmlInk:
    """Escaper for HTML between tags; its output is never used in an attribute."""

    def prose(self, text: str) -> EscapedText:
        """Return text as part of a line; text in single backticks is code."""
        line = shortened(visible(text), LONGEST_PROSE)
        if _SPECIAL.search(line) is None:
            return EscapedText(line or _EMPTY)
        # Odd parts were in backticks.
        parts = _QUOTED.split(line)
        line = "".join(f"<code>{escape(part)}</code>" if at % 2 else escape(part) for at, part in enumerate(parts))
        return EscapedText(line or _EMPTY)

    def code(self, text: str) -> EscapedText:
        """Return text as code that is part of a line."""
        line = shortened(visible(text), LONGEST_CODE)
        return EscapedText(f"<code>{escape(line)}</code>" if line else _EMPTY)

    def cell(self, text: str) -> EscapedText:
        """Return text as a table cell."""
        return self.prose(text)

    def fence(self, text: str, first: int = 1, indent: int = 0) -> EscapedText:  # noqa: ARG002 - as every ink has it
        """Return text as a block of numbered lines of code."""
        lines, left = source_lines(text)
        # Numbers are hidden from screen readers and copying, where they would look like code.
        shown = [
            f'<span class="line"><span class="at" aria-hidden="true">{first + at}</span>{_coloured(line)}</span>'
            for at, line in enumerate(lines)
        ]
        more = f'<span class="line quiet">and {left} more lines in the record</span>' if left else ""
        return EscapedText(f"<pre><code>{''.join(shown)}{more}</code></pre>")

    def listing(self, lines: Sequence[str]) -> EscapedText:
        """Return the lines of a file as a block of numbered lines, each with the target `L` and its number."""
        shown, _ = source_lines("\n".join(lines), len(lines))
        numbered = [
            f'<span class="line" id="L{at}"><span class="at" aria-hidden="true">{at}</span>{_coloured(line)}</span>'
            for at, line in enumerate(shown, 1)
        ]
        return EscapedText(f"<pre><code>{''.join(numbered)}</code></pre>")

    def block(self, text: str) -> EscapedText:
        """Return text as a block of lines without numbers."""
        lines, left = source_lines(text)
        more = [f"and {left} more lines in the record"] if left else []
        return EscapedText(f"<pre>{escape(chr(10).join([*lines, *more]))}</pre>")


def _coloured(line: str) -> str:
    pieces, end = [], 0
    for found in _TOKEN.finditer(line):
        pieces += [
            escape(line[end : found.start()]),
            f'<span class="{found.lastgroup}">{escape(found.group())}</span>',
        ]
        end = found.end()
    return "".join((*pieces, escape(line[end:]), "\n"))
