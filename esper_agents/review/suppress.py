"""Comments that silence a claim: `# esper: ignore[ESP305] the value steers the loop`."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

_MARK = re.compile(r"#\s*esper:\s*ignore\b(?:\[(?P<codes>[^\]]*)\])?\s*(?P<reason>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment.

    Attributes:
        line: The line it speaks for: its own, or the next one where it stands alone.
        comment_line: The line it stands on.
        column: Where it starts, from 1.
        codes: The rules it names; without any it silences nothing.
        reason: Why; without one it silences nothing.
    """

    line: int
    comment_line: int
    column: int
    codes: frozenset[str]
    reason: str

    @property
    def counts(self) -> bool:
        """Whether it silences anything: it names rules and gives a reason."""
        return bool(self.codes and self.reason)


def find_suppressions(text: str) -> tuple[Suppression, ...]:
    """Return the suppressing comments of a source that parses; text in strings does not count."""
    if "esper:" not in text:
        return ()
    return tuple(
        _suppression(token, match)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and (match := _MARK.match(token.string))
    )


def _suppression(token: tokenize.TokenInfo, match: re.Match[str]) -> Suppression:
    line, column = token.start
    stands_alone = not token.line[:column].strip()
    codes = (match["codes"] or "").split(",")
    return Suppression(
        line=line + 1 if stands_alone else line,
        comment_line=line,
        column=column + 1,
        codes=frozenset(code.strip() for code in codes if code.strip()),
        reason=match["reason"].strip(" \t:-"),
    )
