"""CPU and memory limits of this process by its control groups, version 1 or 2."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject

_ABSENT = "absent"
_NONE = "none"
# Version 1 represents "no limit" as the largest multiple of a page.
_ENDLESS = 1 << 60
_MOUNT = re.compile(r"^\S+ \S+ \S+ (\S+) (\S+) .* - (cgroup2?) \S+ (\S+)$", re.MULTILINE)


def limits(root: Path = Path("/")) -> JsonObject:
    """Return the effective limits, the tightest of this process's group and all groups above it.

    Args:
        root: Folder that contains `/proc` and `/sys`.

    Returns:
        `version` (`v1`, `v2` or `absent`), `cpu_cores` (CPU time in processors), `cpus` (processor numbers),
        `memory_bytes`, `memory_used_bytes`, and `throttled_periods` since the group was created. `none` means no limit,
        `absent` no such group.
    """
    groups = _groups(root)
    cpu, memory, cpuset = (groups.get(each) or groups.get("") for each in ("cpu", "memory", "cpuset"))
    return {
        "version": "v1" if any(groups) else "v2" if groups else _ABSENT,
        "cpu_cores": _least(_cores(each) for each in cpu.up()) if cpu else _ABSENT,
        "cpus": _first(cpuset, ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")),
        "memory_bytes": _least(_memory(each) for each in memory.up()) if memory else _ABSENT,
        "memory_used_bytes": _number(_first(memory, ("memory.current", "memory.usage_in_bytes"))),
        "throttled_periods": _throttled(cpu),
    }


class _Group:
    """Control group of this process.

    Attributes:
        mount: Mount point of its hierarchy.
        path: Path of the group in it.
    """

    def __init__(self, mount: Path, path: PurePosixPath) -> None:
        self.mount = mount
        self.path = path

    def up(self) -> Iterator[Path]:
        """Yield the existing folders of the group and of those above it."""
        for each in (self.path, *self.path.parents):
            folder = self.mount.joinpath(*each.parts[1:])
            if folder.is_dir():
                yield folder


def _groups(root: Path) -> dict[str, _Group]:
    """Return this process's groups by controller; version 2's under the empty name, if it limits anything."""
    mounts: dict[str, tuple[Path, str]] = {}
    for inside, mount, kind, options in _MOUNT.findall(_read(root / "proc/self/mountinfo")):
        folder = root / mount.lstrip("/")
        for name in [""] if kind == "cgroup2" else options.split(","):
            mounts.setdefault(name, (folder, inside))
    groups = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            if name in mounts:
                folder, inside = mounts[name]
                # In a container, the mount may start at the group itself.
                relative = PurePosixPath("/") / path.removeprefix(inside).lstrip("/")
                groups[name] = _Group(folder, relative)
    # Version 2 may be mounted next to version 1 without a controller.
    is_mixed = len(groups) > 1 and "" in groups
    if is_mixed and not any((each / "cpu.max").exists() or (each / "memory.max").exists() for each in groups[""].up()):
        del groups[""]
    return groups


def _cores(folder: Path) -> float | None:
    newer = _read(folder / "cpu.max").split()
    quota, period = newer or (_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return round(int(quota) / int(period), 3)


def _memory(folder: Path) -> int | None:
    text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
    return int(text) if text.isdigit() and int(text) < _ENDLESS else None


def _throttled(group: _Group | None) -> Any:
    text = _read(group.mount.joinpath(*group.path.parts[1:]) / "cpu.stat") if group else ""
    found = re.search(r"^nr_throttled (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else _ABSENT


def _first(group: _Group | None, names: tuple[str, ...]) -> str:
    found = (_read(folder / name) for folder in (group.up() if group else ()) for name in names)
    return next((each for each in found if each), _ABSENT)


def _least(numbers: Iterator[Any]) -> Any:
    return min((number for number in numbers if number is not None), default=_NONE)


def _number(text: str) -> Any:
    return int(text) if text.isdigit() else text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
