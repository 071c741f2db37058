"""Lines of a text, as Python, git and editors number them."""

from __future__ import annotations

import re

_LINE_END = re.compile("\r\n|\r|\n")


def text_lines(text: str) -> list[str]:
    r"""Return the lines of a text without their ends.

    Only `\n`, `\r` and `\r\n` end a line. `str.splitlines` also splits at form feeds and at U+2028, which would give
    all later lines other numbers than the parser and editors do.
    """
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]
