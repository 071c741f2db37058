"""External profilers (py-spy, perf, nsys) attached to a measurement process from outside.

All are optional and independent of each other. One that cannot run reports the reason and how to install it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.domain.codec import JsonObject

_SLACK_S = 20.0
_MOST_FRAMES = 12
_RATE_HZ = 199
_PY_SPY_FRAME = re.compile(r"(?P<name>.+) \((?P<file>.+?)(?::(?P<line>\d+))?\)$")


@dataclass(frozen=True, slots=True)
class ExternalSample:
    """One location of a sampled profile.

    Attributes:
        where: `file:function`, or the library.
        own_share: Share of samples in it and in no user function that it calls.
        total_share: Share of samples in it or in anything that it calls.
    """

    where: str
    own_share: float
    total_share: float


@dataclass(frozen=True, slots=True)
class ExternalProfile:
    """Profile by one external profiler.

    Attributes:
        tool: Name of the profiler.
        version: Version reported by the profiler; empty if it is not installed.
        of: Kind of its entries: user `function` or `library`.
        top: Locations, largest share first.
        samples: Number of samples.
        missing: Reason that there is no profile; empty if there is one.
        remedy: How to make the profiler work.
    """

    tool: str
    version: str
    of: str = "function"
    top: tuple[ExternalSample, ...] = ()
    samples: int = 0
    missing: str = ""
    remedy: str = ""

    def described(self) -> JsonObject:
        """Return the profile as stored in reports."""
        described = {"tool": self.tool, "version": self.version, "of": self.of, "samples": self.samples}
        if self.missing:
            return {**described, "missing": self.missing, "remedy": self.remedy}
        top = [
            {"where": each.where, "own_share": round(each.own_share, 6), "total_share": round(each.total_share, 6)}
            for each in self.top
        ]
        return {**described, "top": top}


def installed() -> bool:
    """Return whether any external profiler is installed."""
    return any(shutil.which(tool) for tool in ("py-spy", "perf"))


def absent(why: str = "it is not installed") -> list[ExternalProfile]:
    """Return a result without samples for every supported profiler, with the reason."""
    remedies = {
        "py-spy": "pip install py-spy",
        "perf": "install the distribution's linux-perf package",
    }
    return [ExternalProfile(tool, "", missing=why, remedy=remedy) for tool, remedy in remedies.items()]


def run_external_profilers(pid: int, seconds: float, root: Path) -> list[ExternalProfile]:
    """Run every external profiler on a process in turn.

    Args:
        pid: Process id in this process's namespace.
        seconds: Sampling time of each profiler.
        root: The project, to distinguish its functions from libraries.
    """
    return [py_spy(pid, seconds, root), perf(pid, seconds), nsys()]


def py_spy(pid: int, seconds: float, root: Path) -> ExternalProfile:
    """Sample a process's Python stacks from outside."""
    tool = shutil.which("py-spy")
    if tool is None:
        return ExternalProfile("py-spy", "", missing="it is not installed", remedy="pip install py-spy")
    version = _said([tool, "--version"]).partition(" ")[2].strip()
    with tempfile.TemporaryDirectory(prefix="esper-witness-") as folder:
        stacks = Path(folder, "stacks.txt")
        # py-spy accepts whole seconds only.
        duration = str(max(1, round(seconds)))
        command = [tool, "record", "--pid", str(pid), "--duration", duration, "--rate", str(_RATE_HZ)]
        failure = _run([*command, "--format", "raw", "--full-filenames", "--output", str(stacks)], seconds)
        if failure is not None or not stacks.is_file():
            remedy = "let it trace processes: run as their owner with ptrace allowed, or as root"
            return ExternalProfile("py-spy", version, missing=failure or "it wrote no samples", remedy=remedy)
        return _of_stacks(version, stacks.read_text(encoding="utf-8", errors="replace").splitlines(), root)


def _of_stacks(version: str, lines: Iterable[str], root: Path) -> ExternalProfile:
    inside = f"{root.resolve()}/"
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    samples = 0
    for line in lines:
        stack, _, count = line.rpartition(" ")
        if not count.isdigit():
            continue
        samples += int(count)
        users = [
            f"{found['file'].removeprefix(inside)}:{found['name']}"
            for frame in stack.split(";")
            if (found := _PY_SPY_FRAME.match(frame)) and found["file"].startswith(inside)
        ]
        total.update(dict.fromkeys(users, int(count)))
        if users:
            own[users[-1]] += int(count)
    if not samples:
        return ExternalProfile(
            "py-spy", version, missing="the process was never on a processor while it looked", remedy="look for longer"
        )
    return ExternalProfile("py-spy", version, top=_top(own, total, samples), samples=samples)


def perf(pid: int, seconds: float) -> ExternalProfile:
    """Sample a process's native code from outside, by library."""
    tool = shutil.which("perf")
    if tool is None:
        remedy = "install the distribution's linux-perf package"
        return ExternalProfile("perf", "", "library", missing="it is not installed", remedy=remedy)
    version = _said([tool, "--version"]).removeprefix("perf version ").strip()
    with tempfile.TemporaryDirectory(prefix="esper-witness-") as folder:
        recorded = str(Path(folder, "perf.data"))
        # The clock event, because virtual machines seldom expose the processor's own counters.
        command = [tool, "record", "-q", "-e", "cpu-clock", "-F", str(_RATE_HZ), "-p", str(pid), "-o", recorded]
        failure = _run([*command, "--", "sleep", str(seconds)], seconds)
        if failure is not None:
            remedy = "let it sample: sysctl kernel.perf_event_paranoid=1, or run as root"
            return ExternalProfile("perf", version, "library", missing=failure, remedy=remedy)
        report = [tool, "report", "-i", recorded, "--stdio", "-q", "-t", "\t", "--sort", "dso", "-F", "sample,dso"]
        return _of_libraries(version, _said(report).splitlines())


def _of_libraries(version: str, lines: Iterable[str]) -> ExternalProfile:
    found: Counter[str] = Counter()
    for line in lines:
        count, _, library = line.strip().partition("\t")
        if count.strip().isdigit():
            found[library.strip()] += int(count)
    samples = sum(found.values())
    if not samples:
        return ExternalProfile("perf", version, "library", missing="it took no samples", remedy="look for longer")
    return ExternalProfile("perf", version, "library", _top(found, found, samples), samples)


def nsys() -> ExternalProfile:
    """Return why Nsight Systems cannot profile a measurement process: it cannot attach to a running process."""
    tool = shutil.which("nsys")
    remedy = "run it yourself: nsys profile --trace cuda,nvtx,osrt python FILE"
    if tool is None:
        return ExternalProfile(
            "nsys", "", "kernel", missing="it is not installed", remedy="install NVIDIA Nsight Systems"
        )
    return ExternalProfile(
        "nsys", _said([tool, "--version"]).strip(), "kernel", missing="it attaches to no running process", remedy=remedy
    )


def _top(own: Counter[str], total: Counter[str], samples: int) -> tuple[ExternalSample, ...]:
    ranked = sorted(total, key=lambda where: (-own[where], -total[where], where))[:_MOST_FRAMES]
    return tuple(ExternalSample(where, own[where] / samples, total[where] / samples) for where in ranked)


def _run(command: Sequence[str], seconds: float) -> str | None:
    """Run a profiler; return the reason for a failure, or None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + _SLACK_S, check=False)
    except subprocess.TimeoutExpired:
        return "it did not end in time"
    except OSError as error:
        return f"it does not run: {error.strerror}"
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip().splitlines()
    return said[-1][:200] if said else f"it ended with code {done.returncode}"


def _said(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_SLACK_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
