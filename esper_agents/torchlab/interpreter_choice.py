"""Choose the interpreter of a project: of a setting, the active environment, or its `.venv`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import UsageError
from esper_agents.torchlab.interpreter import active_python, project_interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.domain.codec import JsonObject

SETTING = "ESPER_PYTHON"
OLDEST_TORCH = (2, 4)
# Modules that decide which interpreter is used.
_MODULES = ("pytest", "torch")
_PROBE = (
    "import sys\n"
    "from importlib import metadata, util\n"
    "for name in sys.argv[1:]:\n"
    "    if util.find_spec(name):\n"
    "        try:\n"
    "            print(name + '=' + metadata.version(name))\n"
    "        except metadata.PackageNotFoundError:\n"
    "            print(name)\n"
)
_VERSION = re.compile(r"^__version__ = ['\"]([\w.+]+)", re.MULTILINE)
_SYSTEM_PACKAGES = re.compile(r"^include-system-site-packages\s*=\s*true", re.MULTILINE | re.IGNORECASE)
_MOST_CHARACTERS = 10_000
_PATIENCE_S = 20


@dataclass(frozen=True, slots=True)
class InterpreterCandidate:
    """Interpreter that may run the project's code.

    Attributes:
        python: Path of the program.
        name: Name in texts, such as `.venv`.
        modules: Versions of the modules that decide, by name; empty if unknown.
    """

    python: str
    name: str
    modules: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Whether its environment is that of this process."""
        return Path(self.python).parent.parent.resolve() == Path(sys.prefix).resolve()

    @property
    def problem(self) -> str:
        """Reason why it cannot measure; empty if it can."""
        version = self.modules.get("torch")
        if version is None:
            return f"{self.name} has no torch"
        numbers = tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:2])
        if numbers and numbers < OLDEST_TORCH:
            return f"torch {version} of {self.name} is older than {'.'.join(map(str, OLDEST_TORCH))}"
        return ""


@dataclass(frozen=True, slots=True)
class InterpreterSource:
    """Origin of the interpreter of a measurement.

    Attributes:
        name: Name of its environment; empty for the interpreter of this process and for one that an option names.
        passed_over: Reasons why preferred environments cannot measure.
    """

    name: str = ""
    passed_over: tuple[str, ...] = ()

    def described(self) -> JsonObject:
        """Return it as stored in reports; empty if this process's own interpreter is the first choice."""
        about = {"name": self.name, "passed_over": list(self.passed_over)}
        return {"interpreter": about} if self.name or self.passed_over else {}


def project_candidates(root: Path) -> Iterator[InterpreterCandidate]:
    """Yield the interpreters of the setting `ESPER_PYTHON`, of the active environment, and of the project's `.venv`.

    Args:
        root: The project's folder.

    Raises:
        UsageError: The setting names no program.
    """
    setting, active = os.environ.get(SETTING, ""), active_python()
    if setting:
        if not os.access(setting, os.X_OK):
            raise UsageError(f"{SETTING} names {setting!r}, which does not run", remedy=f"correct or unset {SETTING}")
        yield InterpreterCandidate(setting, SETTING, modules_of(setting))
    if Path(sys.prefix).resolve() == root.resolve() / ".venv":
        # The user started the esper of this environment, whatever else is active.
        yield InterpreterCandidate(sys.executable, ".venv", modules_of(sys.executable))
        return
    if active is not None and os.access(active, os.X_OK):
        yield InterpreterCandidate(str(active), "the active environment", modules_of(str(active)))
    if (found := project_interpreter(root)) is not None and Path(found.executable) != active:
        yield InterpreterCandidate(found.executable, ".venv", _modules_of_project(Path(found.executable)))


@lru_cache(maxsize=8)
def modules_of(python: str) -> Mapping[str, str]:
    """Return the deciding modules that an interpreter has, with their versions; none if it does not run."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _PROBE, *_MODULES],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = (line.partition("=") for line in done.stdout.split()) if done.returncode == 0 else ()
    return {name: version for name, _, version in found if name in _MODULES}


def _modules_of_project(python: Path) -> Mapping[str, str]:
    """Return the deciding modules of a project's environment; nothing of it is run."""
    folder = python.parent.parent
    known: dict[str, str] = {}
    settings = _text(folder / "pyvenv.cfg")
    if _SYSTEM_PACKAGES.search(settings):
        known |= modules_of(str(python.resolve()))
    for packages in folder.glob("lib/python3*/site-packages"):
        for name in _MODULES:
            if (packages / name).is_dir():
                version = _VERSION.search(_text(packages / name / "version.py"))
                known[name] = version.group(1) if version else ""
    return known


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_MOST_CHARACTERS)
    except OSError:
        return ""
