"""Print pip constraints that pin the dependencies of the distribution to their lowest declared versions."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_BOUND = re.compile(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)")
# Development tools that no test needs.
_NO_TEST_TOOLS = re.compile(r"build|deptry|import-linter|mypy|playwright|pre-commit|ruff|towncrier|types-.*|typos")


def main() -> None:
    """Print a line for each requirement, except torch, which has tests of its own; or the tools of the tests."""
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    groups = settings["dependency-groups"]["dev"]
    tools = {name: tool for tool in groups if not _NO_TEST_TOOLS.fullmatch(name := tool.partition("==")[0])}
    if "--test-tools" in sys.argv:
        sys.stdout.write(" ".join(tools.values()))
        return
    project = settings["project"]
    extras = project["optional-dependencies"].values()
    for requirement in sorted({*project["dependencies"], *(line for extra in extras for line in extra)}):
        # A condition on the platform stays in pyproject.toml; the tests install psutil everywhere. A tool of the tests
        # has a version of its own, and pip can install only one.
        found = _BOUND.match(requirement)
        if found and found[1] not in {"torch", *tools} and ";" not in requirement:
            sys.stdout.write(f"{found[1]}=={found[2]}\n")


if __name__ == "__main__":
    main()
