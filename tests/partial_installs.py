"""Environments that lack some of the installed distributions, without installing anything."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from places import Done, environment

import esper_agents

_NAME = "esper-agents"


def closure(*extras: str) -> frozenset[str]:
    """Return the distributions that an installation with these extras brings, this one included."""
    found: set[str] = set()
    missing = [(_NAME, frozenset(extras))]
    while missing:
        name, wanted = missing.pop()
        found.add(name)
        for requirement in map(Requirement, requires(name) or ()):
            holds = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            )
            each = re.sub(r"[-_.]+", "-", requirement.name).lower()
            if holds and (each not in found or requirement.extras):
                missing.append((each, frozenset(requirement.extras)))
                if each == name:
                    found.discard(each)
    return frozenset(found)


def site_with(folder: Path, distributions: frozenset[str]) -> Path:
    """Return a new folder of packages with these distributions only."""
    folder.mkdir()
    for name in distributions:
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if ".." not in file.parts and file.parts[0] != "__pycache__"}:
            place = Path(distribution(name).locate_file(top))
            if not (folder / top).exists():
                (folder / top).symlink_to(place)
    return folder


def esper(site: Path, *words: str, home: Path, cwd: Path, platform: str = sys.platform) -> Done:
    """Run the command with the packages of a folder only."""
    package = Path(esper_agents.__file__).resolve().parent.parent
    code = (
        f"import sys; sys.path[:0] = [{str(package)!r}, {str(site)!r}]; sys.platform = {platform!r}\n"
        "from esper_agents.cli.main import main; main()"
    )
    command = [sys.executable, "-S", "-c", code, *words]
    streams = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    done = subprocess.run(command, cwd=cwd, env=environment(home), check=False, **streams)
    return Done(done.returncode, done.stdout, done.stderr)
