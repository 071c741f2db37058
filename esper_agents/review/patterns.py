"""Regular expressions that are compiled when they are first used: a short review needs few of them."""

from __future__ import annotations

import re
from typing import Any, cast


class _Pattern:
    """Becomes a regular expression when something is asked of it."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # Kept here, so that the next use finds it without asking.
        found = self.__dict__[name] = getattr(re.compile(self._source, self._flags), name)
        return found


def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression as `re.compile` does, but compiled when it is first used.

    Args:
        source: The expression.
        flags: As in `re.compile`.
    """
    return cast("re.Pattern[str]", _Pattern(source, flags))
