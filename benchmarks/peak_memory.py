"""Compares peak memory as worked out without running with what running the same step allocates, model by model.

    python benchmarks/peak_memory.py [NAME...]

The reference is a plain loop in a process of its own: the running sum of torch.profiler's `[memory]` events over two
steps of AdamW, or over one call. The other figures come from the lab as `esper torch memory` uses it. Exits with 1
where an estimate is further off than one per cent, or where the lab's own measurement is not that sum.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.target import TargetSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent / "peak_memory"
FARTHEST = 0.01
MODES = ("train", "forward")


@dataclass(frozen=True)
class Compared:
    """One model in one mode.

    Attributes:
        name: The model.
        mode: `train` or `forward`.
        reference_bytes: What the plain loop allocated at its peak.
        measured_bytes: What the lab measured.
        estimated_bytes: What the lab worked out without running.
        left_out: Operations that were not run alone for what they allocate inside.
    """

    name: str
    mode: str
    reference_bytes: int
    measured_bytes: int
    estimated_bytes: int
    left_out: dict[str, str]

    @property
    def off(self) -> float:
        """How far the estimate is from the reference, as a share of it."""
        return self.estimated_bytes / self.reference_bytes - 1

    @property
    def is_met(self) -> bool:
        """Whether the aims are met."""
        return abs(self.off) <= FARTHEST and self.measured_bytes == self.reference_bytes


def reference(name: str, mode: str) -> int:
    """Return the peak of the running sum of what a plain loop allocates, in bytes."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    sys.path.insert(0, str(FOLDER))
    import models

    torch.manual_seed(0)
    model = getattr(models, name)()
    inputs = models.INPUTS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4) if mode == "train" else None
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        for _ in range(2 if optimizer else 1):
            if optimizer is None:
                model(*inputs)
                continue
            optimizer.zero_grad()
            output = model(*inputs)
            loss = output if output.numel() == 1 else output.sum()
            del output
            loss.backward()
            optimizer.step()
            del loss
    total = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            total += event.nbytes()
            peak = max(peak, total)
    return peak


def references(names: list[str]) -> dict[str, int]:
    """Return the peaks of plain loops, by `NAME mode`, taken in a process that holds nothing of ours."""
    command = [sys.executable, __file__, "--reference", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(names: list[str]) -> Iterator[Compared]:
    """Yield each model in each mode."""
    known = references(names)
    # One worker runs all models and another works out all: what each starts with is imported once.
    with Lab(FOLDER) as lab, lab.worker() as runner, lab.worker() as estimator:
        for name in names:
            target = TargetSpec(f"models.py:{name}", inputs_from=f"models.py:{name}_inputs")
            for mode in MODES:
                request = {"train": mode == "train", "optimizer": "adamw", "seed": 0, "steps": 0}
                runner.load(target)
                measured = runner.ask("memory", request).result["peak"]["allocated_bytes"]
                asked = {**request, "root": str(FOLDER), "target": target.request()}
                estimate: dict[str, Any] = dict(estimator.ask("memory_estimate", asked).result)
                worked_out, left_out = estimate["allocated_bytes"], estimate["left_out"]
                yield Compared(name, mode, known[f"{name} {mode}"], measured, worked_out, left_out)


def main(arguments: list[str]) -> int:
    """Run the benchmark; return 1 where an aim is missed."""
    if arguments[:1] == ["--reference"]:
        import torch

        torch.set_num_threads(1)
        print(json.dumps({f"{name} {mode}": reference(name, mode) for name in arguments[1:] for mode in MODES}))
        return 0
    names = arguments or _names()
    print(f"{'model':<24}{'mode':<9}{'profiler sum':>14}{'lab, run':>14}{'lab, not run':>14}{'off':>9}")
    missed, farthest = 0, 0.0
    for each in compared(names):
        sizes = f"{each.reference_bytes:>14,}{each.measured_bytes:>14,}{each.estimated_bytes:>14,}"
        print(f"{each.name:<24}{each.mode:<9}{sizes}{100 * each.off:>8.3f}%{'' if each.is_met else '  MISSED'}")
        for operation, why in each.left_out.items():
            print(f"  not run alone: {operation}: {why}")
        missed += not each.is_met
        farthest = max(farthest, abs(each.off))
    print(f"{len(names)} models in {len(MODES)} modes: farthest off {100 * farthest:.3f} %, aim {100 * FARTHEST:.0f} %")
    return 1 if missed else 0


def _names() -> list[str]:
    source = (FOLDER / "models.py").read_text(encoding="utf-8")
    return [line.split('"')[1] for line in source.splitlines() if line.startswith('    "') and '": ' in line]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
