"""Pytest command with the plugin that reports results and executed lines."""

from __future__ import annotations

import json
import secrets
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.errors import EvidenceError
from esper_agents.tools import pytest_lines
from esper_agents.tools.pytest_report import read_report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from esper_agents.tools.executable_lines import ExecutableLines
    from esper_agents.tools.pytest_report import PytestReport

_PLUGIN = "esper_pytest_lines"
_OPTIONS = ("-q", "-rfE", "-p", "no:cacheprovider", "--color=no", "--continue-on-collection-errors", "-p", _PLUGIN)


@dataclass(frozen=True, slots=True)
class PytestProcess:
    """Environment of a pytest process, and the file of its report.

    Attributes:
        env: Environment variables that load the plugin.
        report: File that the plugin writes. Its name cannot be guessed; a test can still search for it: see decision
            0012.
    """

    env: dict[str, str]
    report: Path

    @classmethod
    def prepare(
        cls, folder: Path, tree: Path, watched: Mapping[str, ExecutableLines], only: Iterable[str] = ()
    ) -> PytestProcess:
        """Write the plugin and its instructions.

        Args:
            folder: Writable folder outside the project.
            tree: The project.
            watched: Executable lines of the files to watch, by path.
            only: Node ids of the tests to run; empty for all.
        """
        private = folder / secrets.token_hex(8)
        private.mkdir(mode=0o700)
        shutil.copyfile(pytest_lines.__file__, private / f"{_PLUGIN}.py")
        report = private / f"{secrets.token_hex(16)}.json"
        files = {str((tree / path).resolve()): lines for path, lines in watched.items() if lines.count}
        asked = private / "asked.json"
        instructions = {
            "files": {path: each.statements for path, each in files.items()},
            "scripts": [path for path, each in files.items() if each.is_script],
            "report": str(report),
            "only": sorted(only),
        }
        asked.write_text(json.dumps(instructions), encoding="utf-8")
        return cls({pytest_lines.ASKED: str(asked), "PYTHONPATH": str(private)}, report)

    def command(self, python: str, paths: Sequence[str]) -> list[str]:
        """Return the command line.

        Args:
            python: The interpreter.
            paths: Test files and folders.
        """
        return [python, "-m", "pytest", *_OPTIONS, "--", *paths]

    def result(self) -> PytestReport | None:
        """Return the report of the plugin; None if it wrote none.

        Raises:
            EvidenceError: The report is not valid.
        """
        try:
            return read_report(self.report)
        except ValueError as error:
            remedy = "run the tests with `python -m pytest -q` and compare"
            raise EvidenceError("the report of the tests cannot be read", remedy=remedy) from error
