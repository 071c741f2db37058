"""Versions of torch and of Python that the reviewed project asks for; its settings are read as data and never run."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from esper_agents.review.patterns import pattern
from esper_agents.review.project_libraries import library_files
from esper_agents.review.setup_script import required_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from packaging.specifiers import SpecifierSet

# Known releases below which and above which a range may reach; patch releases change no names.
RELEASES = tuple(f"1.{minor}" for minor in range(14)) + tuple(f"2.{minor}" for minor in range(14))
_LARGEST_BYTES = 1 << 20
# The lowest minor version of Python 3 whose grammar `ast.parse` can be asked for.
_OLDEST_GRAMMAR = 7
_PYTHON_VERSION = pattern(r"\s*(?:cpython-|python-?)?(\d+)\.(\d+)")
_NAMES = frozenset({"torch", "pytorch", "pytorch-cpu", "pytorch-gpu"})
_REQUIREMENT = pattern(r"^(?:[\w.-]+::)?(?P<name>[A-Za-z][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?(?P<range>[^;#@)]*)")
_SHORT = pattern(r"(?P<sign>\^|~(?!=))\s*(?P<major>\d+)(?:\.(?P<minor>\d+))?(?P<rest>[\w.]*)")


@dataclass(frozen=True)
class TorchRange:
    """The versions of torch that a project asks for.

    Attributes:
        alternatives: What its requirements say; each may be the one that counts.
    """

    alternatives: tuple[SpecifierSet, ...]

    def reaches(self, version: str) -> bool:
        """Return whether a release from this one on may be installed; one that is not out yet counts, too."""
        later = [*(release for release in RELEASES if _key(release) >= _key(version)), "2.99"]
        return any(self._allows(each) for each in later)

    def starts_at(self, version: str) -> bool:
        """Return whether no release below this one may be installed."""
        return not any(self._allows(release) for release in RELEASES if _key(release) < _key(version))

    def _allows(self, release: str) -> bool:
        patches = [f"{release}.{patch}" for patch in range(4)]
        return any(each in wanted for wanted in self.alternatives for each in patches)


@dataclass(frozen=True, slots=True)
class PythonVersion:
    """The project's own Python: the lowest version that it supports.

    Attributes:
        version: Major and minor version.
        source: The file and the setting that say so.
    """

    version: tuple[int, int]
    source: str

    def __str__(self) -> str:
        """Return the version with its source: `3.9, by requires-python in pyproject.toml`."""
        return f"{self.version[0]}.{self.version[1]}, by {self.source}"

    @property
    def minor(self) -> int | None:
        """The minor version to parse for; None for the newest that the running parser knows."""
        is_older = (3, _OLDEST_GRAMMAR) <= self.version < sys.version_info[:2]
        return self.version[1] if is_older else None

    @property
    def is_newer_than_running(self) -> bool:
        """Whether the running parser may not know all of its syntax."""
        return self.version > sys.version_info[:2]


class TorchSettings:
    """The settings files of a project, read when a rule first asks.

    Attributes:
        root: The project's folder; nothing above it is read.
        library_files: Files with facts about libraries that the project names.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.library_files = library_files(root)
        self._known: dict[Path, TorchRange | None] = {}
        self._pythons: dict[Path, PythonVersion | None] = {}

    def python_near(self, path: str) -> PythonVersion | None:
        """Return the project's own Python for a file: that of the nearest folder that says one, up to the root."""
        folder = (self.root / path).parent
        while True:
            if folder not in self._pythons:
                self._pythons[folder] = _python_in(folder)
            found = self._pythons[folder]
            if found is not None or folder in {self.root, folder.parent}:
                return found
            folder = folder.parent

    def asked_near(self, path: str) -> TorchRange | None:
        """Return the range that holds for a file: that of the nearest folder that has one, from its own up to the root.

        None where no settings name torch, or they cannot be read.
        """
        folder = (self.root / path).parent
        while True:
            if folder not in self._known:
                self._known[folder] = _asked_in(folder)
            found = self._known[folder]
            if found is not None or folder in {self.root, folder.parent}:
                return found
            folder = folder.parent


def _asked_in(folder: Path) -> TorchRange | None:
    """Return the range that a folder's own settings ask for: those of a package before those of an environment."""
    for readers in (_PACKAGE, _ENVIRONMENT):
        wanted = [
            each for pattern, reader in readers for file in _matching(folder, pattern) for each in _read(file, reader)
        ]
        ranges = [found for each in wanted if (found := _as_range(each)) is not None]
        if ranges:
            return TorchRange(tuple(dict.fromkeys(ranges)))
    return None


def _python_in(folder: Path) -> PythonVersion | None:
    """Return the Python that a folder's own settings ask for: `requires-python`, else `.python-version`."""
    text = _text_of(folder / "pyproject.toml")
    try:
        table = tomllib.loads(text)
        asked = table.get("project", {}).get("requires-python", "")
        lowest = _lowest_python(asked) if isinstance(asked, str) and asked else None
    except (ValueError, AttributeError, RecursionError):
        lowest = None
    if lowest is not None:
        return PythonVersion(lowest, "requires-python in pyproject.toml")
    match = _PYTHON_VERSION.match(_text_of(folder / ".python-version"))
    return PythonVersion((int(match[1]), int(match[2])), ".python-version") if match else None


def _text_of(file: Path) -> str:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST_BYTES:
            return ""
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def _lowest_python(asked: str) -> tuple[int, int] | None:
    """Return the lowest Python 3 that a range of versions allows; None if it allows none."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        wanted = SpecifierSet(asked)
    except InvalidSpecifier:
        return None
    allowed = (minor for minor in range(100) if any(f"3.{minor}.{patch}" in wanted for patch in (0, 1, 99)))
    lowest = next(allowed, None)
    # A range without a lower bound says nothing of the syntax.
    return (3, lowest) if lowest else None


def settings_files(folder: Path) -> list[Path]:
    """Return the files of a folder that are asked."""
    patterns = [pattern for readers in (_PACKAGE, _ENVIRONMENT) for pattern, _ in readers]
    patterns.append(".python-version")
    return [file for pattern in patterns for file in _matching(folder, pattern)]


def settings_around(root: Path, paths: Iterable[str]) -> tuple[Path, ...]:
    """Return the settings files that a review of some files may read.

    Args:
        root: The project's folder.
        paths: The files, relative to it.

    Raises:
        UsageError: A library file that the project names is not valid.
    """
    folders = {parent for path in paths for parent in PurePosixPath(path).parents}
    files = [file for folder in sorted(folders) for file in settings_files(root / folder)]
    return (*files, *library_files(root))


def _matching(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def _read(file: Path, reader: Callable[[str], Iterable[str]]) -> list[str]:
    """Return what a settings file requires; nothing where it cannot be read as what it claims to be."""
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST_BYTES:
            return []
        text = file.read_text(encoding="utf-8", errors="replace")
        return list(reader(text)) if "torch" in text else []
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, MemoryError):
        return []


def _pyproject(text: str) -> Iterator[str]:
    settings = tomllib.loads(text)
    project, poetry = settings.get("project", {}), settings.get("tool", {}).get("poetry", {})
    extras = [each for listed in project.get("optional-dependencies", {}).values() for each in listed]
    groups = [each for listed in settings.get("dependency-groups", {}).values() for each in listed]
    tables = [
        poetry.get("dependencies", {}),
        *(each.get("dependencies", {}) for each in poetry.get("group", {}).values()),
    ]
    poetry_lines = [line for table in tables for line in _poetry(table)]
    for lines in (project.get("dependencies", []), poetry_lines, extras, groups):
        named = [each for each in lines if isinstance(each, str) and _as_range(each) is not None]
        if named:
            yield from named
            return


def _poetry(table: dict[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        for each in value if isinstance(value, list) else [value]:
            version = each.get("version", "*") if isinstance(each, dict) else each
            yield f"{name} {version}" if isinstance(version, str) else name


def _setup_cfg(text: str) -> Iterator[str]:
    # Few projects have such a file, and every review would wait for this to load.
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    yield from parser.get("options", "install_requires", fallback="").splitlines()
    if parser.has_section("options.extras_require"):
        for _, lines in parser.items("options.extras_require"):
            yield from lines.splitlines()


def _conda(text: str) -> Iterator[str]:
    import yaml

    try:
        settings = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    for each in settings.get("dependencies") or []:
        lines = [each] if isinstance(each, str) else [line for listed in each.values() for line in listed]
        yield from (_without_build(line) for line in lines)


def _without_build(line: str) -> str:
    """Return `pytorch=2.1.0=py3.10_cuda` as `pytorch==2.1.0.*`: one `=` asks for a version that begins so."""
    match = re.fullmatch(r"\s*([\w.:-]+)\s*=\s*([\w.]+)(?:=.*)?\s*", line)
    return f"{match[1]}=={match[2]}.*" if match else line


_PACKAGE: tuple[tuple[str, Callable[[str], Iterable[str]]], ...] = (
    ("pyproject.toml", _pyproject),
    ("setup.cfg", _setup_cfg),
    ("setup.py", required_by),
)
_ENVIRONMENT: tuple[tuple[str, Callable[[str], Iterable[str]]], ...] = (
    ("requirements*.txt", str.splitlines),
    ("requirements/*.txt", str.splitlines),
    ("environment*.y*ml", _conda),
)


def _as_range(line: str) -> SpecifierSet | None:
    """Return the range that a requirement's line asks of torch; None where it is about something else."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    match = _REQUIREMENT.match(line.strip())
    if match is None or match["name"].lower().replace("_", "-") not in _NAMES or "@" in line:
        return None
    asked = re.sub(r"\+[\w.]+", "", _SHORT.sub(_spelled_out, match["range"])).strip()
    asked = f"=={asked}" if asked[:1].isdigit() else asked
    # A conda pin such as `==2.1.*.*` names the same versions as `==2.1.*`.
    asked = re.sub(r"\.\*\.\*", ".*", asked).replace(" ", "").rstrip(",")
    try:
        return SpecifierSet("" if asked == "*" else asked)
    except InvalidSpecifier:
        return SpecifierSet("")


def _spelled_out(match: re.Match[str]) -> str:
    """Return poetry's `^2.1` as `>=2.1,<3` and `~2.1` as `>=2.1,<2.2`."""
    major, minor = match["major"], match["minor"]
    lowest = ".".join(part for part in (major, minor) if part) + match["rest"]
    is_patch_only = match["sign"] == "~" and minor is not None
    highest = f"{major}.{int(minor) + 1}" if is_patch_only else str(int(major) + 1)
    return f">={lowest},<{highest}"


@cache
def _key(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split("."))
