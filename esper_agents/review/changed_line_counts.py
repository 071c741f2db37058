"""Numbers of changed lines: all of them, and those outside of the statements that an edit of meaning touches."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import NamedTuple

from esper_agents.domain.text_lines import text_lines

# Beyond this product of the numbers of lines, a comparison takes too long.
_MOST_CELLS = 30_000_000


@dataclass(slots=True)
class EditedLines:
    """Lines of edits of meaning in one version of a source.

    Attributes:
        edited: Lines of statements that are edited.
        whole: Lines of statements that are only in this version, with all that is in their blocks.
    """

    edited: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)


class ChangedLineCounts(NamedTuple):
    """Changed lines of a file: its new ones, and the old ones of parts that are only deleted.

    Attributes:
        all: Number of changed lines.
        form: Number of those that leave the behaviour as it is.
    """

    all: int
    form: int


def changed_line_counts(before: str, after: str, edited: EditedLines, edited_before: EditedLines) -> ChangedLineCounts:
    """Return how many lines a change touches, and how many of them no edit of meaning touches.

    Args:
        before: The old source.
        after: The new source.
        edited: Lines of edits of meaning in the new source.
        edited_before: Lines of edits of meaning in the old source.

    Raises:
        SyntaxError: A source is not Python.
    """
    old, new = text_lines(before), text_lines(after)
    meaning, meaning_before = _statements(after, edited), _statements(before, edited_before)
    if len(old) * len(new) > _MOST_CELLS:
        return ChangedLineCounts(len(new), 0)
    total = form = 0
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        is_deleted = tag == "delete"
        lines = range(old_from + 1, old_to + 1) if is_deleted else range(new_from + 1, new_to + 1)
        known = meaning_before if is_deleted else meaning
        total += len(lines)
        form += sum(line not in known for line in lines)
    return ChangedLineCounts(total, form)


def _statements(text: str, lines: EditedLines) -> set[int]:
    """Return the lines of the statements that edits touch: of one with a block, the head, unless all of it is meant."""
    found = lines.edited | lines.whole
    if not found:
        return found
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        last = node.end_lineno or node.lineno
        head = max(node.lineno, min(last, body[0].lineno - 1)) if isinstance(body, list) and body else last
        if any(node.lineno <= line <= head for line in lines.edited):
            found |= set(range(node.lineno, head + 1))
        if node.lineno in lines.whole:
            found |= set(range(node.lineno, last + 1))
    return found
