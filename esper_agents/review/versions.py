"""Which versions of torch the reviewed project asks for, as its settings say; they are read as data and never run."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from esper_agents.review.patterns import pattern
from esper_agents.review.setup_script import required_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from packaging.specifiers import SpecifierSet

# Known releases below which and above which a range may reach; patch releases change no names.
RELEASES = tuple(f"1.{minor}" for minor in range(14)) + tuple(f"2.{minor}" for minor in range(14))
_LARGEST_BYTES = 1 << 20
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
        later = [*(each for each in RELEASES if _key(each) >= _key(version)), "2.99"]
        return any(self._allows(each) for each in later)

    def starts_at(self, version: str) -> bool:
        """Return whether no release below this one may be installed."""
        return not any(self._allows(each) for each in RELEASES if _key(each) < _key(version))

    def _allows(self, release: str) -> bool:
        patches = [f"{release}.{patch}" for patch in range(4)]
        return any(each in wanted for wanted in self.alternatives for each in patches)


class TorchSettings:
    """The settings files of a project, read when a rule first asks.

    Attributes:
        root: The project's folder; nothing above it is read.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[Path, TorchRange | None] = {}

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


def settings_files(folder: Path) -> list[Path]:
    """Return the files of a folder that are asked."""
    patterns = [pattern for readers in (_PACKAGE, _ENVIRONMENT) for pattern, _ in readers]
    return [file for pattern in patterns for file in _matching(folder, pattern)]


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
