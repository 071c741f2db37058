"""Measures the review: lines a second, start to end with and without the cache, one file, memory, and each rule.

    python benchmarks/review_speed.py [FOLDER ...] [--rounds N] [--by-rule]

Without a folder it reads parts of the installed torch, without importing it. Every figure that has an aim is printed
with it, and with MISSED where it is not met; the exit code is then 1. Runs are processes of their own, the fastest
counts, and times are of CPU, so that other work on the machine falls on none of them; wall time stands beside.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.domain.finding import Severity
from esper_agents.review.catalogue import catalogue
from esper_agents.review.engine import ReviewReport, review

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Rule, RuleMatch

PARTS = ("nn", "optim", "utils", "distributed")
ESPER = Path(sys.executable).with_name("esper")
LINES_PER_S = 30_000
COLD_S = 5.0
WARM_S = 0.4
ONE_FILE_S = 0.3
# What the aims of a whole package are stated for: timm, 141,000 lines.
AIMED_LINES = 141_000
PEAK_BYTES = 1_500_000_000
# Done, and findings at the asked level.
_EXPECTED = (0, 3)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of `esper review` in a process of its own.

    Attributes:
        wall_s: From the start of the process to its end.
        cpu_s: Of it and of the processes it waited for.
        peak_bytes: The most memory it held.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int


def folders_of_torch() -> list[Path]:
    """Return the parts of the installed torch that people read and copy.

    Raises:
        SystemExit: torch is not installed.
    """
    found = find_spec("torch")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("torch is not installed: name a folder")
    root = Path(found.submodule_search_locations[0])
    return [root / part for part in PARTS]


def run(arguments: list[str], project: Path) -> Run:
    """Run `esper review` in a folder, with a home beside it, and return what it took.

    Raises:
        SystemExit: It failed.
    """
    environment = {**os.environ, "ESPER_HOME": str(project.with_name("home"))}
    # An installed program has its bytecode; to compile every module that was edited is no part of a review.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    process = subprocess.Popen([ESPER, "review", *arguments], cwd=project, env=environment, stdout=subprocess.DEVNULL)
    # wait4, not wait: it alone says what this one process used.
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in _EXPECTED:
        raise SystemExit(f"esper review exited with {process.returncode}")
    return Run(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def fastest(arguments: list[str], project: Path, rounds: int) -> Run:
    """Return the run that used least CPU."""
    return min((run(arguments, project) for _ in range(rounds)), key=lambda each: each.cpu_s)


def seconds_of(folders: list[Path]) -> float:
    """Return the seconds of CPU that one review of the folders takes in this process."""
    started = time.process_time()
    review(folders[0].parent, folders)
    return time.process_time() - started


class Clock:
    """Counts the time that each rule takes.

    Attributes:
        seconds: Of CPU, by code. What several rules share is counted for the one that asks first.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def watch(self, rule: Rule) -> None:
        """Count what a rule takes from now on."""
        check: Any = rule.check

        def timed(*arguments: Any) -> Iterator[RuleMatch]:
            hits = iter(check(*arguments))
            while True:
                started = time.process_time()
                hit = next(hits, None)
                self.seconds[rule.code] += time.process_time() - started
                if hit is None:
                    return
                yield hit

        setattr(rule, "check", timed)  # noqa: B010 - for this run only


class Scores:
    """What was measured against what was aimed at."""

    def __init__(self) -> None:
        self.missed = 0

    def tell(self, name: str, said: str, *, is_met: bool | None = None, aim: str = "") -> None:
        """Print a figure, with its aim where it has one."""
        verdict = "" if is_met is None else f"   aim {aim}" + ("" if is_met else "   MISSED")
        self.missed += is_met is False
        print(f"{name:<12}{said}{verdict}")

    def limit(self, name: str, measured: Run, limit_s: float, more: str = "") -> None:
        """Print a run's time against the most it may take."""
        said = f"{measured.cpu_s:.3f} s of CPU, {measured.wall_s:.3f} s of wall time{more}"
        self.tell(name, said, is_met=measured.cpu_s <= limit_s, aim=f"at most {limit_s:.2f} s")


def check_that_rules_ran(report: ReviewReport) -> None:
    """Refuse to time a review whose rules fail: they would look fast.

    Raises:
        SystemExit: A rule broke off.
    """
    for each in report.unreadable:
        if " broke off: " in each.problem:
            raise SystemExit(f"{each.path}: {each.problem}")


def tell_package(scores: Scores, report: ReviewReport, folders: list[Path], rounds: int) -> None:
    """Measure and print what concerns a whole package."""
    seconds = min(seconds_of(folders) for _ in range(rounds))
    speed = report.lines / seconds
    scores.tell(
        "lines/s",
        f"{speed:.0f}, {seconds:.3f} s of CPU, the fastest of {rounds}",
        is_met=speed >= LINES_PER_S,
        aim=f"at least {LINES_PER_S}",
    )
    share = max(report.lines / AIMED_LINES, 0.1)
    with tempfile.TemporaryDirectory(prefix="esper-review-speed-") as scratch:
        project = Path(scratch, "project")
        # A copy is a project of its own, wherever the folders stand.
        for folder in folders:
            shutil.copytree(folder, project / folder.name, ignore=_no_source)
        cold = fastest([".", "--no-cache"], project, rounds)
        run(["."], project)
        warm = fastest(["."], project, rounds)
        scores.limit("cold", cold, COLD_S * max(share, 1))
        scores.limit("warm", warm, WARM_S * max(share, 1))
        scores.tell(
            "peak",
            f"{cold.peak_bytes / 1e6:.0f} MB of memory",
            is_met=cold.peak_bytes <= PEAK_BYTES,
            aim=f"at most {PEAK_BYTES / 1e6:.0f} MB",
        )


def _no_source(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not (name.endswith((".py", ".ipynb")) or Path(folder, name).is_dir())]


def tell_one_file(scores: Scores, rounds: int) -> None:
    """Measure and print what a small file takes from the start of the process, reviewed anew."""
    with tempfile.TemporaryDirectory(prefix="esper-review-speed-") as scratch:
        (project := Path(scratch, "project")).mkdir()
        (project / "train.py").write_text(
            "import torch\n\nfor x, y in loader:\n    loss = model(x).sum()\n    loss.backward()\n"
        )
        measured = fastest(["train.py", "--no-cache"], project, max(rounds, 5))
    scores.limit("one file", measured, ONE_FILE_S)


def tell_rules(folders: list[Path]) -> None:
    """Print what each rule takes, slowest first."""
    clock = Clock()
    for rule in (rules := catalogue()):
        clock.watch(rule)
    started = time.process_time()
    report = review(folders[0].parent, folders)
    check_that_rules_ran(report)
    total = time.process_time() - started
    found = Counter(claim.rule for claim in report.claims)
    print(f"\n{'rule':<8}{'ms':>8}{'share':>8}{'found':>7}  of {1000 * total:.0f} ms")
    names = {rule.code: rule.name for rule in rules}
    for code, seconds in sorted(clock.seconds.items(), key=lambda each: -each[1]):
        print(f"{code:<8}{1000 * seconds:>8.1f}{100 * seconds / total:>7.1f}%{found[code]:>7}  {names[code]}")
    rest = total - sum(clock.seconds.values())
    print(f"{'':8}{1000 * rest:>8.1f}{100 * rest / total:>7.1f}%         reading, parsing, tables, claims")


def main() -> None:
    """Print what was measured; exit with 1 where an aim was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="folders under one parent")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--by-rule", action="store_true", help="print what each rule takes, and nothing else")
    options = parser.parse_args()
    folders = [folder.resolve() for folder in options.folders] or folders_of_torch()
    if options.by_rule:
        tell_rules(folders)
        return
    rounds = max(1, options.rounds)
    scores = Scores()
    report = review(folders[0].parent, folders)
    check_that_rules_ran(report)
    scores.tell("folders", " ".join(str(folder) for folder in folders))
    unread = f"{len(report.unreadable)} unreadable, {len(report.generated)} generated"
    scores.tell("files", f"{len(report.examined)}, {report.torch_files} import torch, {unread}")
    scores.tell("rules", str(len(report.rules)))
    scores.tell("lines", str(report.lines))
    tell_package(scores, report, folders, rounds)
    tell_one_file(scores, rounds)
    scores.tell(
        "this run", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most, several reviews"
    )
    found = Counter(claim.severity for claim in report.claims)
    for severity in Severity:
        per_kloc = 1000 * found[severity] / max(1, report.lines)
        scores.tell(severity, f"{found[severity]}, {per_kloc:.3f} per 1000 lines")
    sys.exit(1 if scores.missed else 0)


if __name__ == "__main__":
    main()
