"""Suppression comments: `# esper: ignore[ESP305] the value steers the loop`.

A comment applies to the statement on its line; alone on a line, to the next line of code. On the line of a `def`, or
alone above it, it applies to the whole function. It must name rules by code and give a reason, or it suppresses
nothing. Comments that suppress nothing are diagnostics themselves (ESP001, ESP002).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.review.tables import FileTables, Function

_MARK = pattern(r"#\s*esper:\s*ignore\b(?:\[(?P<codes>[^\]]*)\])?\s*(?P<reason>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Suppression:
    """One suppression comment.

    Attributes:
        line: Line it applies to: its own, or the next line of code if the comment is alone on its line.
        comment_line: Line of the comment.
        column: Column where it starts, from 1.
        codes: Rule codes; without any, the comment suppresses nothing.
        reason: Reason; without one, the comment suppresses nothing.
        last_line: Last line it applies to, for a whole function; 0 for one statement.
    """

    line: int
    comment_line: int
    column: int
    codes: frozenset[str]
    reason: str
    last_line: int = 0

    @property
    def counts(self) -> bool:
        """Whether the comment is effective: it names rules and gives a reason."""
        return bool(self.codes and self.reason)

    def covers(self, line: int, end_line: int) -> bool:
        """Return whether the comment applies to a statement."""
        return line <= self.line <= end_line or self.line <= line <= self.last_line


@dataclass(frozen=True, slots=True)
class SuppressionUsage:
    """Use of the suppression comments of a file in a review.

    Attributes:
        used: Effective comments, each with the code it suppressed.
        ran: Codes of the rules that ran on the file.
        known: Codes of all rules.
    """

    used: frozenset[tuple[Suppression, str]]
    ran: frozenset[str]
    known: frozenset[str]

    def idle(self, suppression: Suppression) -> list[str]:
        """Return the codes of a comment that suppressed nothing although their rules ran."""
        return sorted(code for code in suppression.codes & self.ran if (suppression, code) not in self.used)

    def unknown(self, suppression: Suppression) -> list[str]:
        """Return the codes of a comment that belong to no rule."""
        return sorted(suppression.codes - self.known)


def find_suppressions(text: str) -> tuple[Suppression, ...]:
    """Return the suppression comments of a source that parses; text in strings is ignored."""
    if "esper:" not in text:
        return ()
    lines = text.split("\n")
    return tuple(_suppression(token, match, lines) for token, match in _comments(text))


def with_functions(file: FileTables) -> tuple[Suppression, ...]:
    """Return the suppressions of a file; those on the line of a `def` apply to the whole function."""
    return tuple(_widened(suppression, file.functions[1:]) for suppression in file.suppressions)


def _comments(text: str) -> Iterator[tuple[tokenize.TokenInfo, re.Match[str]]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _MARK.match(token.string)):
                yield token, match
    except (SyntaxError, tokenize.TokenError):
        # The parser accepts some sources that the tokenizer rejects; comments found before the error still apply.
        return


def _suppression(token: tokenize.TokenInfo, match: re.Match[str], lines: Sequence[str]) -> Suppression:
    line, column = token.start
    stands_alone = not token.line[:column].strip()
    codes = (match["codes"] or "").split(",")
    return Suppression(
        line=_next_code(lines, line) if stands_alone else line,
        comment_line=line,
        column=column + 1,
        codes=frozenset(code.strip() for code in codes if code.strip()),
        reason=match["reason"].strip(" \t:-"),
    )


def _next_code(lines: Sequence[str], comment_line: int) -> int:
    """Return the number of the next line with code."""
    following = range(comment_line, len(lines))
    return next((n + 1 for n in following if lines[n].strip() and not lines[n].lstrip().startswith("#")), comment_line)


def _widened(suppression: Suppression, functions: Iterable[Function]) -> Suppression:
    for function in functions:
        node = function.node
        if not isinstance(node, ast.Module) and _first_line(node) <= suppression.line <= _header_end(node):
            return replace(suppression, last_line=node.end_lineno or node.lineno)
    return suppression


def _header_end(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return max(node.lineno, _first_line(node.body[0]) - 1)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
