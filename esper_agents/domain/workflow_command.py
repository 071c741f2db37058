"""GitHub workflow commands, which put messages next to the lines of a pull request."""

from __future__ import annotations

import unicodedata

# The percent sign first: the others contain it.
_IN_MESSAGES = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_IN_PROPERTIES = (*_IN_MESSAGES, (":", "%3A"), (",", "%2C"))
# Control, format, surrogate and line-separator characters.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def workflow_command(level: str, properties: dict[str, str], message: str) -> str:
    """Return one workflow command; no text in it can end it or begin another one.

    Args:
        level: `error`, `warning` or `notice`.
        properties: Properties such as `file`, `line` and `title`.
        message: The message; line feeds stay line feeds.
    """
    listed = ",".join(f"{name}={_escaped(text, _IN_PROPERTIES)}" for name, text in properties.items())
    return f"::{level} {listed}::{_escaped(message, _IN_MESSAGES)}"


def _escaped(text: str, replaced: tuple[tuple[str, str], ...]) -> str:
    shown = "".join(each if each == "\n" or unicodedata.category(each) not in _HIDDEN else _code(each) for each in text)
    for character, code in replaced:
        shown = shown.replace(character, code)
    return shown


def _code(character: str) -> str:
    return f"\\u{ord(character):04x}"
