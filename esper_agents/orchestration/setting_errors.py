"""Refusals of settings, with the line of the file."""

from __future__ import annotations

import re
from typing import NoReturn

from esper_agents.errors import DefinitionError


def line_of(text: str, name: str, begin: int) -> int:
    """Return the line that names a member after a position, else the line of that position."""
    named = rf"['\"]?{re.escape(name)}['\"]?[ \t]*[=.\]]"
    found = re.compile(rf"^[ \t]*(?:\[+[ \t]*)?(?:rule[ \t]*\.[ \t]*)?{named}", re.MULTILINE).search(text, begin)
    return text.count("\n", 0, found.end() if found else begin) + 1


def refuse(shown: str, line: int | None, problem: str, remedy: str) -> NoReturn:
    """Refuse a setting.

    Raises:
        DefinitionError: Always.
    """
    raise DefinitionError(shown, problem, remedy=remedy, line=line)
