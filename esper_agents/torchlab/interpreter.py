"""Ask a Python interpreter for its folders, so that a sandbox can bind exactly those."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from esper_agents.errors import UsageError

_OLDEST = (3, 10)
_PATIENCE_S = 60
_MOST_LINES = 100
_PARTS = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
_PROGRAM = re.compile(r"python(?:3(?:\.\d+)?)?")
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
        is_projects: Whether its environment belongs to the project: only a process in bubblewrap may start it.
    """

    executable: str
    version: tuple[int, int, int]
    places: tuple[Path, ...]
    is_projects: bool = False


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


def project_interpreter(root: Path) -> PythonInterpreter | None:
    """Return the interpreter of the project's `.venv`, which is not run; None if there is none that can be used.

    The environment must link to an interpreter outside the project: only that one is queried. Code in the environment,
    such as that of a `.pth` file, first runs in the sandbox.

    Args:
        root: The project's folder.
    """
    folder = root.resolve() / ".venv"
    program = folder / "bin" / "python"
    real = program.resolve()
    is_usable = folder.is_dir() and not folder.is_symlink() and (folder / "pyvenv.cfg").is_file()
    if not is_usable or real.is_relative_to(root.resolve()) or not _PROGRAM.fullmatch(real.name):
        return None
    try:
        base = interpreter(str(real))
    except UsageError:
        return None
    places = [*base.places, folder, *_links(program), *_editable_folders(folder, root.resolve())]
    return PythonInterpreter(str(program), base.version, _shown(places), is_projects=True)


def _editable_folders(environment: Path, root: Path) -> list[Path]:
    """Return the folders of the project that an environment has on its path, as an editable installation does."""
    lines = []
    for file in environment.glob("lib/python3*/site-packages/*.pth"):
        try:
            lines += file.read_text(encoding="utf-8", errors="replace").splitlines()[:_MOST_LINES]
        except OSError:
            continue
    named = [Path(os.path.normpath(line)) for line in lines if line.startswith("/")]
    return [each for each in named if each != root and each.resolve().is_relative_to(root) and each.is_dir()]


def described_interpreter(python: str, root: Path) -> PythonInterpreter:
    """Return an interpreter's description; that of the project's `.venv` is not run unless it is active.

    Args:
        python: Path of the interpreter.
        root: The project's folder.

    Raises:
        UsageError: There is no such program, it is not Python, does not run, or is older than 3.10.
    """
    if Path(python) == root.resolve() / ".venv" / "bin" / "python" and Path(python) != active_python():
        if (found := project_interpreter(root)) is not None:
            return found
        raise UsageError(f"{python!r} cannot be used", remedy="create the environment again: python -m venv .venv")
    return interpreter(python)


def active_python() -> Path | None:
    """Return the interpreter of the active environment; None if no environment is active."""
    folder = os.environ.get("VIRTUAL_ENV", "")
    if not folder and os.environ.get("CONDA_DEFAULT_ENV", "base") != "base":
        # Shells activate conda's base environment unasked.
        folder = os.environ.get("CONDA_PREFIX", "")
    return Path(folder, "bin", "python") if folder else None


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
