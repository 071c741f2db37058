"""Print indented lines that fit the terminal, and commands that can be copied."""

from __future__ import annotations

import textwrap

from esper_agents.cli.terminal import echo, one_line, width

_STEP = "  "
_HANGING = "    "


def outline(text: str, depth: int = 0) -> None:
    """Print text as one indented paragraph.

    Args:
        text: The text; white space in it counts as one space.
        depth: How far in; on a narrow terminal the text matters more than how deep it stands.
    """
    echo(outlined(text, depth))


def outlined(text: str, depth: int = 0) -> str:
    """Return text as `outline` prints it."""
    indent = (_STEP * depth)[: width() // 4]
    return textwrap.fill(
        one_line(text),
        width(),
        initial_indent=indent,
        subsequent_indent=indent + _HANGING,
        break_on_hyphens=False,
        break_long_words=False,
    )


def outline_command(label: str, command: str, depth: int = 0) -> None:
    """Print a command after a label on one line, so that it can be copied."""
    echo(f"{_STEP * depth}{label}: {one_line(command)}")
