"""Compile diagnosis against cases whose truth is known by construction, and how long each takes once warm.

Run it with `python benchmarks/compile_cases.py [NAME...]`. Each function and class under `compile_cases/` with a
comment on its first line is a case: the comment says its status, `limit` where dynamo must give up, and `train` where
backward runs. `# break`, `# again` and `# fails` mark the lines that must be found, and `# break for A, B` those that
belong to other cases. Exits with 1 where anything else is found, or where the median
diagnosis takes longer than it should.
"""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.explain import MEASUREMENT
from esper_agents.torchlab.target import TargetSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent / "compile_cases"
MEDIAN_S = 0.5
_CASE = re.compile(r"^(?:def |class )?(\w+)(?:\(.*\):| = .*\))  # (\S.*)$")
_MARK = re.compile(r"# (break|again|fails)(?: (\d+))?(?: for ([\w, ]+))?$")


@dataclass
class Truth:
    """What must be found of a case.

    Attributes:
        name: `FILE.py:NAME`.
        status: Such as `breaks`.
        is_limited: Whether dynamo gives up compiling it anew.
        is_trained: Whether backward runs.
        marked: `break`, `again` or `fails` to `FILE:LINE` and how many there are.
    """

    name: str
    status: str
    is_limited: bool
    is_trained: bool
    marked: dict[str, dict[str, int]] = field(default_factory=dict)


def truths(folder: Path = FOLDER) -> list[Truth]:
    """Return the truth of every case, by file and line."""
    found: dict[str, Truth] = {}
    marks: list[tuple[str, str, str, int]] = []
    for path in sorted(folder.glob("*.py")):
        current = ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            case = _CASE.match(line)
            mark = _MARK.search(line)
            if case:
                current, words = case[1], [each.strip() for each in case[2].split(";")]
                found[current] = Truth(f"{path.name}:{current}", words[0], "limit" in words, "train" in words)
            elif mark:
                owners = mark[3].split(", ") if mark[3] else [current]
                marks += [(each, mark[1], f"{path.name}:{number}", int(mark[2] or 1)) for each in owners]
    for owner, kind, place, count in marks:
        found[owner].marked.setdefault(kind, {})[place] = count
    return list(found.values())


def differences(truth: Truth, result: dict[str, Any]) -> Iterator[str]:
    """Yield how a diagnosis differs from the truth, one line for each difference."""
    if result.get("status") != truth.status:
        yield f"status {result.get('status')} in place of {truth.status}"
    if bool(result.get("limits")) != truth.is_limited:
        yield f"limit {'' if result.get('limits') else 'not '}reached"
    again = [each for each in result["recompiles"] if not each["is_routine"]]
    failed = [result[stage] for stage in ("failure", "autograd") if "kind" in result.get(stage, {})]
    for kind, told in (("break", result["breaks"]), ("again", again), ("fails", failed)):
        if kind == "fails" and kind not in truth.marked:
            continue
        places = [_place(each) for each in told]
        counted = {place: places.count(place) for place in places}
        if counted != truth.marked.get(kind, {}):
            yield f"{kind} {counted} in place of {truth.marked.get(kind, {})}"


def _place(told: dict[str, Any]) -> str:
    at = told.get("place")
    return f"{at['file']}:{at['line']}" if at else str(told.get("outside"))


def main(names: list[str]) -> int:
    """Diagnose every case and print what was found; return 1 where it is not the truth or takes too long."""
    chosen = [each for each in truths() if not names or each.name.split(":")[1] in names]
    took_s: list[float] = []
    cpu_s: list[float] = []
    missed = 0
    print("wall s, processor s, truth, case")
    with Lab(FOLDER) as lab:
        lab.warm("explain")
        for truth in chosen:
            begun = time.perf_counter()
            with lab.worker() as worker:
                worker.load(_spec(truth))
                raw = worker.ask("explain", {"train": truth.is_trained}).result
                result = dict(MEASUREMENT.conclusions({"result": raw}))
            took_s.append(time.perf_counter() - begun)
            cpu_s.append(result["cost"]["cpu_ns"] / 1e9)
            said = list(differences(truth, result))
            missed += bool(said)
            print(f"{took_s[-1]:6.3f}  {cpu_s[-1]:6.3f}  {truth.status:<18} {truth.name}")
            for each in said:
                print(f"                MISSED {each}")
    return _conclude(len(chosen), missed, took_s, cpu_s)


def _spec(truth: Truth) -> TargetSpec:
    return TargetSpec(truth.name, inputs=("randn(4,8)",))


def _conclude(count: int, missed: int, took_s: list[float], cpu_s: list[float]) -> int:
    print(f"{count} cases, {missed} missed")
    for what, times in (("fork, load and diagnosis, wall", took_s), ("diagnosis, processor", cpu_s)):
        p50, p95 = (sorted(times)[int(share * (len(times) - 1))] for share in (0.5, 0.95))
        print(f"{what}: p50 {p50:.3f} s, p95 {p95:.3f} s, worst {max(times):.3f} s")
    # Wall time says as much about who else is at work; it is printed with the load, and not judged.
    is_quick = sorted(cpu_s)[len(cpu_s) // 2] <= MEDIAN_S
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; ", end="")
    print(f"median diagnosis at most {MEDIAN_S} s of processor time: {'met' if is_quick else 'MISSED'}")
    return int(missed > 0 or not is_quick)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
