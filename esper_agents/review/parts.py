"""Divides what is too much to hold at once into parts that are reviewed one after the other.

Code that uses torch stays together where it fits, with what it imports and what imports it; the rest, and torch code
that does not fit, is divided by folder from the top. Nothing is left out: only calls between parts are not followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from esper_agents.review.discover import DiscoveredFile

# Trees and tables take about 50 bytes for each byte of source: at most some 1.2 GiB at a time.
PART_BYTES = 24 * 1024 * 1024
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+([^\n#]*)|import[ \t]+([^\n#]+))", re.MULTILINE
)
_NAME = re.compile(rb"[\w.]+")
_ROOTS = frozenset({"accelerate", "fastai", "ignite", "lightning", "pytorch_lightning", "torch", "torchvision"})
_MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class Part:
    """Files that are reviewed together.

    Attributes:
        name: What it holds, in words; empty where it holds everything.
        candidates: Its files, by path.
    """

    name: str
    candidates: tuple[DiscoveredFile, ...]


def divide(candidates: Sequence[DiscoveredFile], most_bytes: int = PART_BYTES) -> tuple[Part, ...]:
    """Return files in parts of no more than so many bytes of source each, as far as single files allow."""
    sizes = {candidate.path: size_of(candidate) for candidate in candidates}
    if sum(sizes.values()) <= most_bytes:
        return (Part("", tuple(candidates)),)
    torch = _around_torch(candidates)
    if sum(sizes[path] for path in torch) > most_bytes:
        return tuple(_by_folder(candidates, sizes, most_bytes))
    together = tuple(candidate for candidate in candidates if candidate.path in torch)
    rest = [candidate for candidate in candidates if candidate.path not in torch]
    first = [Part("what uses torch", together)] if together else []
    return (*first, *_by_folder(rest, sizes, most_bytes))


def size_of(candidate: DiscoveredFile) -> int:
    """Return the size of a file in bytes; 0 if it is gone."""
    try:
        return candidate.file.stat().st_size
    except OSError:
        return 0


def _by_folder(candidates: Sequence[DiscoveredFile], sizes: Mapping[str, int], most_bytes: int) -> list[Part]:
    parts: list[Part] = []
    names: list[str] = []
    held: list[DiscoveredFile] = []
    for name, group in _groups(candidates, sizes, most_bytes, 0):
        if held and sum(sizes[each.path] for each in (*held, *group)) > most_bytes:
            parts.append(_part(names, held))
            names, held = [], []
        names.append(name)
        held = [*held, *group]
    return [*parts, _part(names, held)] if held else parts


def _part(names: Sequence[str], held: Iterable[DiscoveredFile]) -> Part:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return Part(", ".join(names[:_MOST_NAMES]) + more, tuple(sorted(held, key=lambda each: each.path)))


def _groups(
    candidates: Sequence[DiscoveredFile], sizes: Mapping[str, int], most_bytes: int, depth: int
) -> list[tuple[str, list[DiscoveredFile]]]:
    """Return the folders at a depth with their files, each that is too large as the folders in it."""
    found: dict[str, list[DiscoveredFile]] = {}
    for candidate in candidates:
        parts = candidate.path.split("/")
        found.setdefault("/".join(parts[: depth + 1]), []).append(candidate)
    groups: list[tuple[str, list[DiscoveredFile]]] = []
    for name, group in sorted(found.items()):
        if len(group) > 1 and sum(sizes[each.path] for each in group) > most_bytes:
            groups += _groups(group, sizes, most_bytes, depth + 1)
        else:
            groups.append((name, group))
    return groups


def _around_torch(candidates: Sequence[DiscoveredFile]) -> set[str]:
    """Return the paths of the files that use torch, of what they import and of what imports them, as far as it goes."""
    imports = {candidate.path: _imports(candidate) for candidate in candidates}
    by_tail: dict[str, list[str]] = {}
    for path in imports:
        by_tail.setdefault(_module(path).rpartition(".")[2], []).append(path)
    down = {path: {to for name in names for to in _files(name, by_tail)} for path, names in imports.items()}
    up: dict[str, set[str]] = {path: set() for path in imports}
    for path, targets in down.items():
        for target in targets:
            up[target].add(path)
    users = {path for path, names in imports.items() if any(name.split(".")[0] in _ROOTS for name in names)}
    return _reached(_reached(users, up), down)


def _reached(start: set[str], edges: Mapping[str, set[str]]) -> set[str]:
    seen, edge = set(start), list(start)
    while edge:
        fresh = edges[edge.pop()] - seen
        seen |= fresh
        edge += fresh
    return seen


def _imports(candidate: DiscoveredFile) -> set[str]:
    """Return the dotted names that a file imports, by the looks of its lines."""
    try:
        content = candidate.file.read_bytes()
    except OSError:
        return set()
    found: set[str] = set()
    package = candidate.path.split("/")[:-1]
    for source, names, modules in _IMPORT.findall(content):
        base = _absolute(source.decode("ascii", "ignore"), package)
        found.update(f"{base}.{each.decode('ascii', 'ignore')}".strip(".") for each in _NAME.findall(names))
        found.update(each.decode("ascii", "ignore") for each in _NAME.findall(modules))
        found.add(base)
    return found - {""}


def _absolute(source: str, package: Sequence[str]) -> str:
    name = source.lstrip(".")
    dots = len(source) - len(name)
    base = package[: len(package) - dots + 1] if dots else []
    return ".".join([*base, name] if name else base)


def _module(path: str) -> str:
    parts = path.rpartition(".")[0].split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _files(name: str, by_tail: Mapping[str, list[str]]) -> list[str]:
    """Return the files that an imported name means; `train` also means `src/train.py`."""
    found = []
    for path in by_tail.get(name.rpartition(".")[2], ()):
        module = _module(path)
        if module == name or module.endswith(f".{name}"):
            found.append(path)
    return found
