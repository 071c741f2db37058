"""Option names of version 0.1.0, which are accepted for one release and which no help shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

# Old option, after the name of its command if others use the name differently: what it is called today.
RENAMED: dict[str, tuple[str, ...]] = {
    "--accept": ("--definitions", "current"),
    "--again": ("--rerun",),
    "--alone": ("--no-external-profilers",),
    "--at": ("--from-step",),
    "--before": ("--cursor",),
    "--concurrency": ("--jobs",),
    "--diff-only": ("--fix", "--dry-run"),
    "--fail-on-break": ("--fail-on", "break"),
    "--least": ("--min-sessions",),
    "--lines": ("--limit",),
    "--markdown": ("--format", "markdown"),
    "--memory": ("--max-memory",),
    "--out": ("--output",),
    "--pinned": ("--definitions", "recorded"),
    "--plan": ("--dry-run",),
    "--quick": ("--effort", "quick"),
    "--strict": ("--fail-on", "warning"),
    "--thorough": ("--effort", "thorough"),
    "--trust": ("--trusted-key",),
    "compare --allow": ("--ignore",),
    "data --fail": ("--fail-on", "warning"),
    "export --fail": ("--fail-on", "error"),
    "memory --fail": ("--fail-on", "leak"),
    "nan --fail": ("--fail-on", "nonfinite"),
    "watch --fail": ("--fail-on", "error"),
}

# Old option that means something else today: what to use instead. A path may follow the second.
REFUSED = {"memory --limit": "--device-memory", "trust --project": "--from-project"}


def with_current_names(command: str, known: Collection[str], words: Sequence[str]) -> list[str]:
    """Return the words of a command line with the current names of its options.

    Args:
        command: Name of the command.
        known: Names of its options.
        words: Arguments of the command.

    Raises:
        UsageError: An old option must be replaced by the user.
    """
    written: list[str] = []
    for position, word in enumerate(words):
        if word == "--":
            return [*written, *words[position:]]
        name, equals, value = word.partition("=")
        replacement = REFUSED.get(f"{command} {name}", "")
        has_value = bool(equals) or (position + 1 < len(words) and not words[position + 1].startswith("-"))
        if replacement in known and not (name in known and has_value):
            _refuse(name, replacement)
        current = RENAMED.get(f"{command} {name}") or RENAMED.get(name, ())
        if name in known or not current or current[0] not in known:
            written.append(word)
        else:
            written += [*current[:-1], f"{current[-1]}{equals}{value}"]
    return written


def _refuse(name: str, replacement: str) -> None:
    from esper_agents.errors import UsageError

    raise UsageError(f"{name} of this command is now {replacement}", remedy=f"use {replacement}")
