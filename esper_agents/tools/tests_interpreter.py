"""Choose the Python that runs tests: of the user's environment, the project's, or our own."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from esper_agents.torchlab import bubblewrap
from esper_agents.torchlab.interpreter_choice import InterpreterCandidate, modules_of, project_candidates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Modules without which the tests of this product's users cannot run, most important first.
_NEEDED = ("pytest", "torch")


def python_for_tests(root: Path) -> str:
    """Return the interpreter for tests: of the user or the project, of the search path, or our own.

    The first that has pytest and torch is taken; if none has both, the first that has pytest; else the first.

    Args:
        root: The project's folder. Its `.venv` is used only where bubblewrap can confine it from its start.
    """
    candidates = {candidate.python: candidate for candidate in _candidates(root)}
    for needed in (set(_NEEDED), {_NEEDED[0]}):
        if fitting := [python for python, each in candidates.items() if needed <= each.modules.keys()]:
            return fitting[0]
    return next(iter(candidates))


def _candidates(root: Path) -> Iterator[InterpreterCandidate]:
    can_confine = bubblewrap.find() is not None
    yield from (
        project_candidate
        for project_candidate in project_candidates(root)
        if project_candidate.name != ".venv" or can_confine
    )
    for python in (shutil.which("python"), shutil.which("python3"), sys.executable):
        if python:
            yield InterpreterCandidate(python, python, modules_of(python))
