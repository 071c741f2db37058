"""Traces as Python prints them, of files that a test writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.traces.explain import explain_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from esper_agents.traces.explain import TraceExplanation


def explain_printed(
    folder: Path, files: Mapping[str, str], frames: Sequence[tuple[str, str, str, str]], error: str, *, before: str = ""
) -> TraceExplanation:
    """Return the explanation of a trace as Python prints it.

    Args:
        folder: Project directory, which the files are written to.
        files: Texts of the files by path.
        frames: File, stripped line, function and underlined part of each frame, the outermost first.
        error: Type and message of the exception.
        before: What the person writes before the trace.
    """
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    lines = ["Traceback (most recent call last):"]
    for file, text, function, marked in frames:
        number = [line.strip() for line in files[file].split("\n")].index(text) + 1
        lines += [f'  File "/srv/job/{file}", line {number}, in {function}', f"    {text}"]
        if marked:
            lines.append(" " * (4 + text.index(marked)) + "^" * len(marked))
    return explain_text(before + "\n".join([*lines, error]), folder)
