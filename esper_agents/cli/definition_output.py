"""Output about files of definitions and skills: warnings, refused files, shortened descriptions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from esper_agents.cli.terminal import echo, echo_json, one_line, report
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.api import LintResult
    from esper_agents.errors import DefinitionError

_LONGEST = 200


def refused_json(refused: Sequence[DefinitionError]) -> list[dict[str, Any]]:
    """Return files that cannot be used as JSON."""
    return [{"path": each.path, "problem": each.problem, "remedy": each.remedy} for each in refused]


def report_refused(refused: Sequence[DefinitionError]) -> None:
    """Print files that cannot be used."""
    for error in refused:
        report(error)


def report_lint(found: LintResult, read: str, *, is_strict: bool, as_json: bool) -> None:
    """Print the result of a check of definitions.

    Args:
        found: The result.
        read: Number of files and of warnings, in words.
        is_strict: Whether warnings fail.
        as_json: Whether to print JSON.

    Raises:
        typer.Exit: Always; with 2 if a file cannot be used, and with 3 for warnings that fail.
    """
    if as_json:
        echo_json({"warnings": [asdict(odd) for odd in found.warnings], "refused": refused_json(found.refused)})
    else:
        for odd in found.warnings:
            echo(f"{one_line(odd.path)}:{odd.line}: {one_line(odd.problem)}\n  fix: {one_line(odd.remedy)}")
        echo(read)
        report_refused(found.refused)
    if found.refused:
        raise typer.Exit(ExitCode.USAGE)
    raise typer.Exit(ExitCode.AGAINST if is_strict and found.warnings else ExitCode.DONE)


def beginning(description: str) -> str:
    """Return the beginning of a description in one line, cut between words."""
    line = one_line(description)
    return line if len(line) <= _LONGEST else line[:_LONGEST].rsplit(" ", 1)[0] + " ..."
