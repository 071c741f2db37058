"""Description of the measuring machine: system, processor, limits, load. No private or guessed data."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.torchlab.cgroup_limits import limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.domain.codec import JsonObject

ABSENT = "absent"
UNKNOWN = "unknown"
_KIB = 1024
# Processor features that affect the speed or the accuracy of tensor operations.
_FEATURES = re.compile(
    r"(sse4_[12]|avx\w*|fma|f16c|amx_\w+|vnni|bmi[12]|asimd\w*|neon|sve\w*|sme2?|sme_\w+|bf16|i8mm|fphp|rv64\w*|vsx|constant_tsc|hypervisor)"
)
_MOST_FEATURES = 64


def host(root: Path = Path("/")) -> JsonObject:
    """Return facts about the machine: `os`, `cpu`, `memory`, `limits`, `load`, `pressure`, `virtualisation`.

    A fact that does not exist on this system is `absent`; one that cannot be read is `unknown`.

    Args:
        root: Folder that contains `/proc`, `/sys` and `/etc`.
    """
    return {
        "os": _os(root),
        "cpu": _cpu(root),
        "memory": _memory(root),
        "limits": limits(root),
        "load": _load(root),
        "pressure": {each: _pressure(root / "proc/pressure" / each) for each in ("cpu", "io", "memory")},
        "virtualisation": {"container": _container(root), "hypervisor": _hypervisor(root)},
    }


def read(path: Path) -> str | None:
    """Return a file's text without surrounding white space; None if it does not exist or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _os(root: Path) -> JsonObject:
    names = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', read(root / "etc/os-release") or "", re.MULTILINE))
    return {
        "system": platform.system() or UNKNOWN,
        "kernel": platform.release() or UNKNOWN,
        "distribution": names.get("PRETTY_NAME", ABSENT),
        "machine": platform.machine() or UNKNOWN,
        "page_bytes": os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else UNKNOWN,
        "clock_source": _one(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "transparent_hugepages": _chosen(read(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        "nvidia_driver": _one(root / "sys/module/nvidia/version"),
    }


def _cpu(root: Path) -> JsonObject:
    text = read(root / "proc/cpuinfo") or ""
    processors = root / "sys/devices/system/cpu"
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "model": _model(text),
        "features": _features(text),
        "logical": os.cpu_count() or UNKNOWN,
        "cores": _cores(text),
        "affinity": ranges(affinity) if affinity is not None else ABSENT,
        "usable": len(affinity) if affinity is not None else ABSENT,
        "governor": _governor(processors),
        "turbo": _turbo(processors),
        "smt": _one(processors / "smt/control"),
        "isolated": _one(processors / "isolated") or "none",
        "numa_nodes": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or ABSENT,
    }


def _model(text: str) -> str:
    named = re.search(r"^(?:model name|cpu model|cpu)\s*:\s*(.+)$", text, re.MULTILINE | re.IGNORECASE)
    if named:
        return " ".join(named[1].split())
    # 64-bit Arm reports numbers instead of a name.
    numbers = dict(re.findall(r"^CPU (implementer|part)\s*:\s*(\w+)$", text, re.MULTILINE))
    if numbers:
        return f"implementer {numbers.get('implementer', UNKNOWN)}, part {numbers.get('part', UNKNOWN)}"
    return platform.processor() or UNKNOWN


def _features(text: str) -> list[str] | str:
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    if not found:
        return ABSENT if text else UNKNOWN
    return sorted(each for each in set(found[1].split()) if _FEATURES.fullmatch(each))[:_MOST_FEATURES]


def _cores(text: str) -> int | str:
    """Return the number of physical cores."""
    sockets = re.findall(r"^physical id\s*:\s*(\d+)$", text, re.MULTILINE)
    cores = re.findall(r"^core id\s*:\s*(\d+)$", text, re.MULTILINE)
    return len(set(zip(sockets, cores, strict=True))) if cores and len(cores) == len(sockets) else UNKNOWN


def _governor(processors: Path) -> str:
    governors = {read(path) for path in processors.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ", ".join(sorted(governor for governor in governors if governor)) or ABSENT


def _turbo(processors: Path) -> str:
    intel, general = read(processors / "intel_pstate/no_turbo"), read(processors / "cpufreq/boost")
    if intel is not None:
        return "off" if intel == "1" else "on"
    return ABSENT if general is None else "on" if general == "1" else "off"


def _memory(root: Path) -> JsonObject:
    text = read(root / "proc/meminfo") or ""
    sizes = {name: int(size) * _KIB for name, size in re.findall(r"^(\w+):\s*(\d+) kB$", text, re.MULTILINE)}
    names = {"total_bytes": "MemTotal", "available_bytes": "MemAvailable", "swap_bytes": "SwapTotal"}
    return {ours: sizes.get(theirs, ABSENT) for ours, theirs in names.items()}


def _load(root: Path) -> JsonObject:
    words = (read(root / "proc/loadavg") or "").split()
    keys = ("minutes_1", "minutes_5", "minutes_15")
    if len(words) < len(keys):
        averages: Iterable[Any] = os.getloadavg() if hasattr(os, "getloadavg") else [ABSENT] * len(keys)
        return {
            key: round(each, 2) if isinstance(each, float) else each for key, each in zip(keys, averages, strict=True)
        }
    return {key: float(word) for key, word in zip(keys, words, strict=False)}


def _pressure(path: Path) -> Any:
    """Return the share of recent time in which work waited for a resource, in percent."""
    found = re.findall(r"^(some|full) avg10=([\d.]+) avg60=([\d.]+)", read(path) or "", re.MULTILINE)
    return {
        f"{kind}_{span}_s": float(each) for kind, *spans in found for span, each in zip((10, 60), spans, strict=True)
    } or ABSENT


def _container(root: Path) -> str:
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    named = re.search(r"docker|kubepods|containerd|lxc|garden", read(root / "proc/1/cgroup") or "")
    # systemd and podman write it in lower case.
    said = os.environ.get("container", "")  # noqa: SIM112 - see above
    return named[0] if named else said if said.isalpha() else ABSENT


def _hypervisor(root: Path) -> str:
    product = [read(root / "sys/class/dmi/id" / each) for each in ("sys_vendor", "product_name")]
    named = " ".join(each for each in product if each)
    has_flag = "hypervisor" in _features(read(root / "proc/cpuinfo") or "")
    kind = read(root / "sys/hypervisor/type")
    if kind or has_flag:
        return kind or named or "present"
    return ABSENT


def _one(path: Path) -> str:
    text = read(path)
    return ABSENT if text is None else text


def _chosen(text: str | None) -> str:
    """Return the bracketed choice of a line such as `always [madvise] never`."""
    found = re.search(r"\[(\w+)\]", text or "")
    return found[1] if found else ABSENT


def ranges(numbers: Iterable[int]) -> str:
    """Return increasing numbers as ranges, such as `0-3,8`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
