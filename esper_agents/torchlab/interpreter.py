"""Ask a Python interpreter for its folders, so that a sandbox can bind exactly those."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from esper_agents.errors import UsageError

_OLDEST = (3, 10)
_PATIENCE_S = 60
_PARTS = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
# Editable installations by setuptools record a package's folder in a finder and not on the path.
_QUESTION = """
import json, sys, sysconfig
places = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path}
places.update(sysconfig.get_paths().values())
for finder in sys.meta_path:
    mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
    if isinstance(mapping, dict):
        places.update(str(place) for place in mapping.values())
answer = {"executable": sys.executable, "version": list(sys.version_info[:3]), "places": sorted(places)}
print("\\n" + json.dumps({"esper": answer}))
"""


@dataclass(frozen=True, slots=True)
class PythonInterpreter:
    """Python interpreter that runs.

    Attributes:
        executable: Absolute path with links unresolved: a virtual environment is recognized by it.
        version: Major, minor and micro version.
        places: Files and folders needed to run it and to import installed packages, with links resolved and unresolved.
    """

    executable: str
    version: tuple[int, int, int]
    places: tuple[Path, ...]


@lru_cache(maxsize=16)
def interpreter(python: str) -> PythonInterpreter:
    """Query an interpreter for its folders.

    Args:
        python: A path, or a name to look up on `PATH`.

    Raises:
        UsageError: There is no such program, it is not Python, does not run, or is older than 3.10.
    """
    found = shutil.which(python)
    if found is None:
        raise UsageError(f"no interpreter at {python!r}", remedy="name one that runs: --python .venv/bin/python")
    path = os.path.abspath(found)  # noqa: PTH100 - Path.resolve would follow the link that makes it a virtual environment
    said = _asked(path, python)
    if said.version < _OLDEST:
        dotted = ".".join(map(str, said.version))
        raise UsageError(f"{python!r} is Python {dotted}", remedy="name an interpreter of Python 3.10 or newer")
    return said


def _asked(path: str, named: str) -> PythonInterpreter:
    remedy = f"check it with: {path} -I -c 'print(1)'"
    try:
        done = subprocess.run(
            [path, "-I", "-c", _QUESTION],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=False,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{named!r} does not run: {error}", remedy=remedy) from error
    last = done.stdout.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
    try:
        answer = json.loads(last)["esper"]
        major, minor, micro = answer["version"]
        places = [Path(each) for each in answer["places"] if Path(each).is_absolute()]
        # The named program may be a script that finds the interpreter, such as pyenv's.
        path = str(answer["executable"] or path)
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{named!r} is not a Python 3 interpreter", remedy=remedy) from error
    return PythonInterpreter(path, (int(major), int(minor), int(micro)), _shown([*places, *_links(Path(path))]))


def _narrowed(place: Path) -> list[Path]:
    """Return the interpreter's part of a path that is a home directory or contains one."""
    home = Path.home().resolve()
    if place.resolve() == home or place.resolve() in home.parents:
        return [place / name for name in _PARTS]
    return [place]


def _links(path: Path) -> list[Path]:
    """Return a path and every link on the way to its target: each must exist."""
    chain = [path]
    # The kernel follows at most forty links.
    while path.is_symlink() and len(chain) <= 40:  # noqa: PLR2004
        path = path.parent / path.readlink()
        chain.append(path)
    return chain


def _shown(places: list[Path]) -> tuple[Path, ...]:
    """Return the existing paths, as named and with links resolved, without those inside others."""
    parts = [part for place in places for part in _narrowed(place) if part.exists()]
    there = {Path(os.path.normpath(each)) for part in parts for each in (part, part.resolve())}
    return tuple(sorted(each for each in there if not there & set(each.parents)))
