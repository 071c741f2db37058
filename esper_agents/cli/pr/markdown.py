"""Markdown for GitHub and GitLab in which untrusted text is never markup, a mention or a CI command."""

from __future__ import annotations

import re

from esper_agents.cli.terminal import clean, one_line

_LONGEST = 600
_MARKS = re.compile(r"[\\*_\[\]<>!|&~]")
# Both hosts link mentions, references and addresses after they have read the Markdown; a comment splits their text.
_LINKS = re.compile(r"[@#$]|:(?=//)|\bwww(?=\.)", re.IGNORECASE)
_BACKTICKS = re.compile(r"`+")
# GitHub takes `##[` anywhere in a line of a log, and `::` at its start, for a command.
_COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)


def text(untrusted: str, most: int = _LONGEST) -> str:
    """Return text of one line in which only pairs of backticks are markup."""
    line = _cut(one_line(untrusted), most)
    pieces = line.split("`")
    if len(pieces) % 2 == 0:
        return _escaped(line.replace("`", "'"))
    return "".join(code(piece) if number % 2 else _escaped(piece) for number, piece in enumerate(pieces))


def code(untrusted: str, most: int = _LONGEST) -> str:
    """Return a code span of one line."""
    line = _cut(one_line(untrusted), most).replace("##[", "## [")
    if not line:
        return ""
    fence = "`" * (max((len(each) for each in _BACKTICKS.findall(line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def block(untrusted: str, language: str) -> str:
    """Return a fenced block; its text must be safe in a log."""
    fence = "`" * max(3, *(len(each) + 1 for each in _BACKTICKS.findall(untrusted)), 3)
    return f"{fence}{language}\n{untrusted.rstrip(chr(10))}\n{fence}"


def is_safe_in_log(untrusted: str) -> bool:
    """Return whether text has no hidden characters, and nothing that GitHub takes for a command in a log."""
    return clean(untrusted) == untrusted and not _COMMAND.search(untrusted)


def _escaped(line: str) -> str:
    marked = _MARKS.sub(lambda found: f"\\{found[0]}", line)
    return _LINKS.sub(lambda found: f"{found[0]}<!-- -->" if found[0] != "$" else "&#36;", marked)


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 3]}..."
