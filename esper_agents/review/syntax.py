"""Why a source does not parse: the syntax of a newer Python, Python 2, or a mistake."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

_TYPES = r"\[[^\[\]()]*(?:\[[^\]]*\]|\([^)]*\)|[^\[\]()])*\]"
# What each Python added, as it looks on the line at which an older parser stops.
_ADDED = (
    ((3, 15), "a lazy import", re.compile(r"\s*lazy\s+(?:import|from)\s")),
    ((3, 15), "unpacking in a comprehension", re.compile(r".*[\[({]\s*\*{1,2}[^,]*\sfor\s")),
    ((3, 14), "a template string", re.compile(r"(?:.*[^\w\"'])?(?:[tT][rR]?|[rR][tT])[\"']")),
    (
        (3, 13),
        "a type parameter with a default",
        re.compile(r"\s*(?:(?:async\s+)?def|class|type)\s+\w+\s*\[(?:[^\[\]=]|\[[^\]]*\])*=[^=]"),
    ),
    ((3, 12), "type parameters", re.compile(rf"\s*(?:(?:async\s+)?def|class)\s+\w+\s*{_TYPES}\s*[(:]")),
    ((3, 12), "a `type` statement", re.compile(rf"\s*type\s+\w+\s*(?:{_TYPES})?\s*=")),
)
_EXCEPT = re.compile(r"\s*except\*?\s+[\w.]+\s*,\s*(?P<second>[\w.]+)\s*(?:,[^:]*)?:")
_PYTHON_2 = re.compile(r"\s*(?:exec\s+\S|print\s+\S|raise\s+[\w.]+\s*,)|.*(?:<>|\b[uU][rR][\"']|\b0\d+|\b\d+[lL]\b|`)")
_STRING = re.compile(r"(?P<prefix>[a-zA-Z]{0,2})(?P<quote>\"\"\"|'''|\"|')")
# What an older parser says of an f-string that ends elsewhere for it than for a newer one.
_MISTAKEN = re.compile(r"f-string: (?:unmatched|expecting)|unterminated|unexpected character")
_REFUSED = "f-string expression part cannot include"
_MOST_LINES = 50


@dataclass(frozen=True, slots=True)
class SyntaxDiagnosis:
    """Why a source does not parse.

    Attributes:
        problem: What is wrong; lower case, no full stop.
        remedy: What to do; empty where the source must be mended.
        needs: The newer Python that can parse it; empty if no version is known to.
    """

    problem: str
    remedy: str = ""
    needs: tuple[int, ...] = ()


def why_not_parsed(error: Exception, source: str) -> SyntaxDiagnosis:
    """Return why a source does not parse.

    Args:
        error: What the parser raised.
        source: What it parsed.
    """
    if isinstance(error, SyntaxError):
        return diagnose(error, source)
    if isinstance(error, RecursionError | MemoryError):
        return SyntaxDiagnosis("nests too deeply to be parsed", "split the expression, or leave it out")
    return SyntaxDiagnosis(f"does not parse: {str(error).splitlines()[0]}")


def diagnose(error: SyntaxError, source: str, running: tuple[int, ...] = sys.version_info[:2]) -> SyntaxDiagnosis:
    """Return why a source does not parse.

    Args:
        error: What the parser says.
        source: What it parsed.
        running: The version of the Python whose parser it was.
    """
    lines = source.split("\n")[max((error.lineno or 1) - 1, 0) :][:_MOST_LINES] or [""]
    for version, what in _newer(lines, error.msg):
        if version > running:
            needed = ".".join(map(str, version))
            return SyntaxDiagnosis(
                f"needs Python {needed} ({what}), and this is Python {'.'.join(map(str, running))}",
                f"run esper under Python {needed} or newer",
                version,
            )
    if _is_python_2(lines[0], error.msg):
        return SyntaxDiagnosis("is Python 2", "convert it, or leave it out of the paths")
    return SyntaxDiagnosis(f"does not parse: {error.msg}")


def _newer(lines: list[str], said: str) -> list[tuple[tuple[int, ...], str]]:
    """Return what newer Pythons would make of the lines where the parser stopped."""
    found: list[tuple[tuple[int, ...], str]] = []
    found += ((version, what) for version, what, pattern in _ADDED if pattern.match(lines[0]))
    caught = _EXCEPT.match(lines[0])
    if caught is not None and not caught["second"].islower():
        found.append(((3, 14), "`except` without parentheses"))
    if said.startswith(_REFUSED) or (_MISTAKEN.match(said) and _closes("\n".join(lines))):
        found.append(((3, 12), "an f-string with its own quotes or a backslash inside"))
    return found


def _is_python_2(line: str, said: str) -> bool:
    if said.startswith(("Missing parentheses in call to 'print'", "Missing parentheses in call to 'exec'")):
        return True
    return _EXCEPT.match(line) is not None or _PYTHON_2.match(line) is not None


def _closes(text: str) -> bool:
    """Return whether the first line holds an f-string, and all its strings end by the rules of Python 3.12."""
    at, has_formatted = 0, False
    while at < len(text) and text[at] not in "#\n":
        found = _STRING.match(text, at)
        if found is None:
            at += 1
            continue
        has_formatted |= "f" in found["prefix"].lower()
        at = _string_end(text, found)
        if at < 0:
            return False
    return has_formatted


def _string_end(text: str, opening: re.Match[str]) -> int:
    """Return where a string ends, or -1 where it does not."""
    quote, is_formatted = opening["quote"], "f" in opening["prefix"].lower()
    at = opening.end()
    while at < len(text):
        if text.startswith(quote, at):
            return at + len(quote)
        if text[at] == "\n" and len(quote) == 1:
            return -1
        if text[at] == "\\" or (is_formatted and text.startswith("{{", at)):
            at += 2
        elif is_formatted and text[at] == "{":
            at = _field_end(text, at + 1)
            if at < 0:
                return -1
        else:
            at += 1
    return -1


def _field_end(text: str, at: int) -> int:
    """Return where a replacement field ends, or -1 where it does not."""
    open_brackets = [""]
    closing = {"(": ")", "[": "]", "{": "}"}
    while at < len(text):
        found = _STRING.match(text, at)
        letter = text[at]
        if found is not None:
            at = _string_end(text, found)
            if at < 0:
                return -1
            continue
        if letter in closing:
            open_brackets.append(closing[letter])
        elif letter in ")]}":
            expected = open_brackets.pop()
            if not expected:
                return at + 1 if letter == "}" else -1
            if letter != expected:
                return -1
        at = text.find("\n", at) if letter == "#" and "\n" in text[at:] else at + 1
    return -1
