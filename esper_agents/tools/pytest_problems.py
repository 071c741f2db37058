"""Reasons why pytest ran no test, from its exit code and output, each with what fixes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_INTERNAL, _USAGE, _NO_TESTS = 3, 4, 5
_LONGEST = 200
# Plugins by the options that they define, the longest beginning first.
_PLUGINS = {
    "--cov": "pytest-cov",
    "--no-cov": "pytest-cov",
    "--numprocesses": "pytest-xdist",
    "--dist": "pytest-xdist",
    "-n": "pytest-xdist",
    "--timeout": "pytest-timeout",
    "--asyncio-mode": "pytest-asyncio",
    "--benchmark": "pytest-benchmark",
    "--reruns": "pytest-rerunfailures",
    "--randomly": "pytest-randomly",
    "--html": "pytest-html",
    "--self-contained-html": "pytest-html",
    "--nbval": "nbval",
    "--nbmake": "nbmake",
    "--mypy": "pytest-mypy",
    "--flake8": "pytest-flake8",
    "--black": "pytest-black",
    "--ruff": "pytest-ruff",
    "--pylint": "pytest-pylint",
    "--forked": "pytest-forked",
    "--mpl": "pytest-mpl",
    "--hypothesis": "hypothesis",
    "--snapshot": "syrupy",
    "--splits": "pytest-split",
    "--group": "pytest-split",
    "--doctest-plus": "pytest-doctestplus",
    "--memray": "pytest-memray",
    "--sugar": "pytest-sugar",
    "--picked": "pytest-picked",
    "--beartype-packages": "pytest-beartype",
    "--jaxtyping-packages": "jaxtyping",
    "--ds": "pytest-django",
    "--envfile": "pytest-dotenv",
    "--order": "pytest-order",
    "--testmon": "pytest-testmon",
    "--instafail": "pytest-instafail",
    "--import-check": "pytest-importcheck",
}
_UNRECOGNIZED = re.compile(r"error: unrecognized arguments: (.+)")
_PLUGIN = re.compile(r"Error importing plugin [\"'](?P<plugin>[\w.]+)[\"']: (?P<why>.+)")
_REQUIRED = re.compile(r"Missing required plugins: (.+)")
_CONFTEST = re.compile(r"(?:ImportError|Error) while loading conftest '(.+?)'")
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
_NO_PYTEST = ": No module named pytest"
_NOT_FOUND = re.compile(r"ERROR: (?:file or directory )?not found: (.+)")
_MINIMUM = re.compile(r"requires pytest-?\s?>?=?\s?(\S+?),? actual pytest")
_DESELECTED = re.compile(r"(\d+) deselected")
_REASON = re.compile(
    r"^(?:E\s{2,}|ERROR:? |INTERNALERROR> (?=[A-Za-z.]+(?:Error|Exception))|\S*error: )(.+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class PytestProblem:
    """Reason why pytest ran no test.

    Attributes:
        text: The reason, in one line.
        remedy: A command or an edit that fixes it.
    """

    text: str
    remedy: str


def pytest_problem(  # noqa: PLR0911 - one for each reason
    exit_code: int | None, printed: str, *, paths: Sequence[str], python: str, root: Path, rerun: str
) -> PytestProblem:
    """Return the reason why a run of pytest has no result.

    Args:
        exit_code: Exit code of pytest.
        printed: Its output.
        paths: Files and folders that it was given.
        python: The interpreter.
        root: The project, as its output names it.
        rerun: Command that repeats the run outside esper-agents.
    """
    where, install = ", ".join(paths), f"{quote(python)} -m pip install"
    if _NO_PYTEST in printed:
        return PytestProblem(f"pytest is not installed for {python}", f"{install} pytest")
    if exit_code == _NO_TESTS:
        if found := _DESELECTED.search(printed):
            text = f"pytest found {found[1]} tests in {where} and its settings deselect all of them"
            return PytestProblem(text, "remove -m or -k from addopts in the settings of pytest, or name other tests")
        text = f"pytest found no tests in {where}"
        return PytestProblem(text, rerun)
    if found := _UNRECOGNIZED.search(printed):
        return _of_options(found[1].split(), install)
    if found := _PLUGIN.search(printed):
        missing = _MISSING_MODULE.search(found["why"])
        name = (missing[1] if missing else found["plugin"]).partition(".")[0].replace("_", "-")
        return PytestProblem(
            f"pytest cannot load its plugin {found['plugin']!r}: {_line(found['why'])}", f"{install} {name}"
        )
    if found := _REQUIRED.search(printed):
        names = [each.strip() for each in found[1].split(",")]
        text = f"pytest lacks plugins that the project requires: {', '.join(names)}"
        return PytestProblem(_line(text), f"{install} {' '.join(map(quote, names))}")
    if found := _MINIMUM.search(printed):
        return PytestProblem(f"the project requires pytest {found[1]}", f"{install} {quote(f'pytest>={found[1]}')}")
    if found := _CONFTEST.search(printed):
        return _of_conftest(found[1].removeprefix(f"{root}/"), printed[found.end() :], install)
    if found := _NOT_FOUND.search(printed):
        return PytestProblem(
            f"pytest does not find {found[1].removeprefix(f'{root}/').strip()!r}", "name tests that exist"
        )
    reasons = _REASON.findall(printed)
    last = printed.strip().splitlines()[-1] if printed.strip() else "no output"
    reason = reasons[-1 if exit_code == _INTERNAL else 0] if reasons else last
    meaning = {_INTERNAL: " (internal error)", _USAGE: " (usage error)"}.get(exit_code or 0, "")
    return PytestProblem(f"pytest exited with {exit_code}{meaning}: {_line(reason)}", rerun)


def _of_options(options: Sequence[str], install: str) -> PytestProblem:
    first = options[0]
    plugin = next((_PLUGINS[each] for each in sorted(_PLUGINS, key=len, reverse=True) if first.startswith(each)), "")
    if plugin:
        text = f"pytest does not know {first[:60]!r}, an option of {plugin}, which is not installed for the tests"
        return PytestProblem(text, f"{install} {plugin}")
    remedy = "install the plugin that defines it, or remove it from addopts in the settings of pytest"
    return PytestProblem(f"pytest does not know the option {first[:60]!r}", remedy)


def _of_conftest(path: str, printed: str, install: str) -> PytestProblem:
    missing = _MISSING_MODULE.search(printed)
    if missing:
        module = missing[1].partition(".")[0]
        return PytestProblem(
            f"{path} imports {missing[1]!r}, which is not installed for the tests", f"{install} {module}"
        )
    reasons = [each for each in _REASON.findall(printed) if each.strip()]
    return PytestProblem(
        f"{path} cannot be imported: {_line(reasons[-1] if reasons else 'no reason given')}", f"python {quote(path)}"
    )


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 4]} ..."
