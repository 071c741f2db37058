"""Measures the time of `esper torch compare` from the command to its verdict.

Run it with `python benchmarks/compare_time.py [--pairs N] [--only KIND ...] [--json]`. Honest pairs of
`benchmarks/adversarial/` with calls under 10 ms are compared: the first command of a project starts the parent that
the others find. A hang, an allocation bomb and a baseline of 0.3 s a call follow. It prints the load of
the machine, the medians and the worst, and exits with 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_FOLDER = Path(__file__).with_name("adversarial")
_ESPER = Path(sys.executable).with_name("esper")
_PAIRS = (
    "honest_attention",
    "honest_layer_norm",
    "honest_einsum",
    "honest_pairwise_distance",
    "honest_log_softmax",
    "honest_vectorised_windows",
    "honest_in_place_chain",
    "honest_gelu",
    "honest_linear_fused",
    "honest_segment_mean",
    "honest_rms_norm",
    "honest_times_2_00",
)
_SLOW = '''"""A baseline of 0.3 s a call, and the same without a loop."""

import torch


def get_inputs():
    return (torch.randn(256, 256),)


def baseline(x):
    for _ in range({rounds}):
        y = torch.tanh(x @ x.T / 256)
    return y


def candidate(x):
    for _ in range({fewer}):
        y = torch.tanh(x @ x.T / 256)
    return y
'''
# Aims in seconds; those of functions are for a command that finds a parent.
_QUICK_MS = 10.0
_MEDIAN_S, _WORST_S, _BOMB_S, _SLOW_S = 4.0, 10.0, 10.0, 60.0


@dataclass(frozen=True, slots=True)
class TimedCommand:
    """One command.

    Attributes:
        name: The pair.
        is_first: Whether it was the first of its project.
        took_s: From the command to its end.
        outcome: The verdict.
        call_ms: Time of a call of the baseline; None if nothing was timed.
        start_s: Time of its start.
        correctness_s: Time of the equivalence check.
        timing_s: Time of the timing; None if nothing was timed.
    """

    name: str
    is_first: bool
    took_s: float
    outcome: str
    call_ms: float | None
    start_s: float
    correctness_s: float
    timing_s: float | None


def compare(project: Path, name: str, *, is_first: bool) -> TimedCommand:
    """Run the command on a pair, and return what it took."""
    words = ["torch", "compare", f"{name}.py:baseline", f"{name}.py:candidate", "--seed", "0", "--json"]
    environment = {**os.environ, "ESPER_HOME": str(project.parent / "home")}
    begun = time.monotonic()
    ran = subprocess.run([_ESPER, *words], cwd=project, env=environment, capture_output=True, text=True, check=False)
    took_s = time.monotonic() - begun
    if not ran.stdout.startswith("{"):
        raise SystemExit(f"{name}: {ran.stderr}")
    result = json.loads(ran.stdout)["result"]
    took = result["took"]
    samples = result["samples"]
    call_ns = [min(each["baseline"]["run_ns"]) / (each["calls"][0] + each["lead_in"][0]) for each in samples]
    return TimedCommand(
        name,
        is_first,
        round(took_s, 2),
        result["verdict"]["outcome"],
        round(min(call_ns) / 1e6, 3) if call_ns else None,
        round(took["start_ns"] / 1e9, 2),
        round(took["correctness_ns"] / 1e9, 2),
        round(took["timing_ns"] / 1e9, 2) if took.get("timing_ns") else None,
    )


def _slow(folder: Path) -> None:
    """Write a pair whose baseline takes 0.3 s a call on this machine."""
    code = (
        "import time, torch; torch.set_num_threads(1); x = torch.randn(256, 256); torch.tanh(x @ x.T / 256); "
        "b = time.process_time(); [torch.tanh(x @ x.T / 256) for _ in range(100)]; print(time.process_time() - b)"
    )
    hundred_s = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    rounds = max(int(30 / hundred_s), 2)
    (folder / "slow.py").write_text(_SLOW.format(rounds=rounds, fewer=rounds // 2), encoding="utf-8")


def _end_parents(home: Path) -> None:
    for path in home.glob("warm/*/parent.json"):
        with suppress(OSError, ValueError):
            os.kill(json.loads(path.read_text(encoding="ascii"))["pid"], signal.SIGTERM)


def _commands(project: Path, only: list[str], pairs: int) -> list[TimedCommand]:
    shutil.copytree(_FOLDER, project)
    _slow(project)
    names = [("first", _PAIRS[0])]
    names += [("functions", name) for name in _PAIRS[:pairs]]
    names += [("hang", "never_returns"), ("bomb", "eats_memory"), ("slow", "slow")]
    done: list[TimedCommand] = []
    for kind, name in names:
        if not only or kind in {"first", *only}:
            done.append(compare(project, name, is_first=not done))
            print(done[-1], file=sys.stderr, flush=True)
    return done


def main() -> int:
    """Time all commands, print what they took, and return 1 where an aim was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=len(_PAIRS))
    parser.add_argument("--only", nargs="*", default=[], choices=("functions", "hang", "bomb", "slow"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="esper-compare-time-") as folder:
        try:
            done = _commands(Path(folder, "project"), options.only, options.pairs)
        finally:
            _end_parents(Path(folder, "home"))
    if options.json:
        print(json.dumps([asdict(each) for each in done], indent=1))
    print(f"load: {before:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} processors")
    if first := [each for each in done if each.is_first]:
        print(f"first command: {first[0].took_s} s, of which start {first[0].start_s} s")
    names = {*_PAIRS}
    later = [
        each.took_s for each in done if each.name in names and not each.is_first and (each.call_ms or 0) < _QUICK_MS
    ]
    missed = []
    if later:
        median_s, worst_s = statistics.median(later), max(later)
        print(f"functions: median {median_s:.2f} s, worst {worst_s:.2f} s, n = {len(later)} (aims: 4 and 10)")
        missed += ["functions"] if median_s > _MEDIAN_S or worst_s > _WORST_S else []
    for name, aim_s in (("never_returns", _BOMB_S), ("eats_memory", _BOMB_S), ("slow", _SLOW_S)):
        for each in done:
            if each.name == name:
                print(f"{name}: {each.took_s} s, {each.outcome} (aim: {aim_s:.0f})")
                missed += [name] if each.took_s > aim_s else []
    print(f"missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
