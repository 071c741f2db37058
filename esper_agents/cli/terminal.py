"""Terminal output: sanitized text without secrets, JSON, tables and error messages."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from io import StringIO
from itertools import pairwise
from textwrap import TextWrapper, fill
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.errors import EsperError

T = TypeVar("T")

_SHORT = 12
# Below this width, a table is printed as one line per cell.
NARROW = 60
_KEPT = frozenset("\n\t")
# Control, format (bidi, zero width), surrogate and line-separator characters can all change the displayed text.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_LABEL = 11
# Text that users copy and that must not be wrapped: lines with these labels, and commands within a text.
_WHOLE = frozenset(("next", "or", "project", "view"))
_COMMAND = re.compile(r"`[^`]+`|\besper [a-z]+ [^;]*$")
_GLUE = "\0"
# Colours of severities and statuses, as SGR parameters.
COLOURS = {
    "critical": "1;31",
    "warning": "33",
    "suggestion": "36",
    "APPROVED": "32",
    "GO": "32",
    "RECOMMEND": "32",
    "ADVISORY_ONLY": "36",
    "CONDITIONALLY_APPROVED": "33",
    "NEEDS_FURTHER_REVIEW": "33",
    "REQUIRES_REMEDIATION": "31",
    "REJECTED": "31",
    "NO_GO": "31",
    "DO_NOT_RECOMMEND": "31",
    "EMERGENCY_STOP": "1;31",
}
# A severity is a label, or follows the position of a finding; a status is a word of its own.
_COLOURED = re.compile(
    r"(?:(?<=^)|(?<=:\d: )|(?<=:\d\d: )|(?<=:\d\d\d: ))(?:critical|warning|suggestion)(?= )"
    r"|(?<![^\s(])(?:[A-Z]+_)*[A-Z]{2,}(?![^\s,;:)])",
    re.MULTILINE,
)


def clean(text: str) -> str:
    r"""Return text without characters that move the cursor, colour, hide or reorder the output.

    Line feeds and tabs stay; every other control or format character is shown as `\x1b` or `\u202e`.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each in _KEPT or unicodedata.category(each) not in _HIDDEN else _shown(each) for each in text
    )


def redact(value: T) -> T:
    """Return a text, a JSON value or a domain value without its secrets, as certificates hold it.

    Called for the output of every command. Redact a value before it is serialized: quoting hides some secrets from
    detection.
    """
    from esper_agents.api import redacted, secrets_of

    return redacted(value, known=secrets_of(os.environ)).value


def _shown(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - one byte


def one_line(text: str) -> str:
    """Return `clean` text on one line."""
    return clean(" ".join(text.split()))


def short(identifier: str) -> str:
    """Return an ID short enough for a table; every command accepts it instead of the full ID."""
    prefix, _, rest = identifier.partition("_")
    return f"{prefix}_{rest[-_SHORT:]}" if rest else identifier


def width() -> int:
    """Return the width of the terminal in columns."""
    return max(20, shutil.get_terminal_size((100, 24)).columns)


def is_interactive() -> bool:
    """Return whether standard input and output are terminals."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def has_colour() -> bool:
    """Return whether standard output is coloured: on a terminal, unless `NO_COLOR` or `FORCE_COLOR` says otherwise."""
    # A text that is not the output itself, but a part of it, is coloured with it.
    if os.environ.get("NO_COLOR") or isinstance(sys.stdout, StringIO):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def coloured(text: str) -> str:
    """Return sanitized text with its severities and statuses in colour."""
    return _COLOURED.sub(_in_colour, text)


def _in_colour(match: re.Match[str]) -> str:
    colour = COLOURS.get(match[0])
    return f"\x1b[{colour}m{match[0]}\x1b[0m" if colour else match[0]


def echo(text: str = "", *, is_data: bool = False) -> None:
    """Print text to standard output, sanitized and without secrets.

    Args:
        text: The text.
        is_data: Whether it is for programs, and not coloured.
    """
    text = clean(redact(text)).encode(sys.stdout.encoding or "utf-8", "replace").decode(sys.stdout.encoding or "utf-8")
    sys.stdout.write(text if is_data or not has_colour() else coloured(text))
    sys.stdout.write("\n")


def say(label: str, text: str) -> None:
    """Print one labelled line without secrets, wrapped to the terminal but not inside a path or command."""
    # Redact before wrapping: a secret on two lines is not recognized.
    text = redact(text)
    columns = width()
    is_narrow = columns < NARROW
    start = f"{label}: " if is_narrow and label else "" if is_narrow else f"{label:<{_LABEL}}"
    if label in _WHOLE:
        echo(start + one_line(text))
        return
    wrapped = TextWrapper(
        columns,
        initial_indent=start,
        subsequent_indent="" if is_narrow else " " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )
    glued = _COMMAND.sub(lambda found: found[0].replace(" ", _GLUE), clean(text))
    echo(wrapped.fill(glued).replace(_GLUE, " "))


def echo_json(value: Any) -> None:
    """Print a JSON value to standard output, with sorted members and without secrets."""
    sys.stdout.write(json_text(value))


def json_text(value: Any) -> str:
    """Return a JSON value as `echo_json` prints it."""
    return json.dumps(redact(value), indent=2, sort_keys=True, ensure_ascii=True, default=str) + "\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table that wraps its cells to the width of the terminal, on a narrow one a line for each cell.

    Secrets in cells are removed.
    """
    rows = [[one_line(redact(cell)) for cell in row] for row in rows]
    # The first column identifies the row; it is not wrapped, and neither is a path.
    widths = [
        max((len(text) for row in rows for text in (_paths(row[number]) if number else row[:1])), default=1)
        for number in range(len(headers))
    ]
    if width() < max(NARROW, sum(widths) + 2 * len(widths)):
        for row in rows:
            for header, cell in zip(headers, row, strict=True):
                echo(fill(f"{header}: {cell}", width(), break_long_words=False, break_on_hyphens=False))
            echo()
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    is_whole = [number == 0 or all(" " not in row[number] for row in rows) for number in range(len(headers))]
    columns = [
        Column(header, min_width=least, no_wrap=whole)
        for header, least, whole in zip(headers, widths, is_whole, strict=True)
    ]
    drawn = Table(*columns, box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for row in rows:
        drawn.add_row(*(Text(cell, overflow="fold") for cell in row))
    Console(width=width(), markup=False, highlight=False).print(drawn)


def _paths(cell: str) -> list[str]:
    return [word for word in cell.split() if "/" in word]


def report(error: EsperError) -> None:
    """Print an error to standard error without secrets: its two lines, or one JSON object if the user wants JSON."""
    if wants_json(sys.argv[1:]):
        known = {"problem": error.problem, "fix": error.remedy, "exit": int(error.exit_code), "kind": error.kind}
        sys.stderr.write(json.dumps({"error": redact(known)}) + "\n")
        return
    sys.stderr.write(f"esper: {one_line(redact(error.problem))}\n")
    if error.remedy:
        sys.stderr.write(f"  fix: {one_line(redact(error.remedy))}\n")


def note(text: str) -> None:
    """Print a line to standard error, sanitized and without secrets; standard output is for the result."""
    sys.stderr.write(f"{one_line(redact(text))}\n")


def wants_json(words: Sequence[str]) -> bool:
    """Return whether a command line contains `--json` or `--format json`; one with a usage error is never parsed."""
    own = words[: words.index("--")] if "--" in words else words
    return "--json" in own or "--format=json" in own or ("--format", "json") in pairwise(own)
