"""Measures how many lines a second the review reads with all rules, and how much it says about code that works.

    python benchmarks/review_speed.py [FOLDER ...] [--rounds N]

Without a folder it reads parts of the installed torch, without importing it.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review

PARTS = ("nn", "optim", "utils", "distributed")


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


def seconds_of(folders: list[Path]) -> float:
    """Return the seconds of CPU that one review of the folders takes."""
    started = time.process_time()
    review(folders[0].parent, folders)
    return time.process_time() - started


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="folders under one parent")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folders = [folder.resolve() for folder in options.folders] or folders_of_torch()
    report = review(folders[0].parent, folders)
    seconds = min(seconds_of(folders) for _ in range(max(1, options.rounds)))
    print(f"folders     {' '.join(str(folder) for folder in folders)}")
    print(f"files       {len(report.examined)}, {report.torch_files} import torch, {len(report.unreadable)} unreadable")
    print(f"rules       {len(report.rules)}")
    print(f"lines       {report.lines}")
    print(f"seconds     {seconds:.3f} of CPU, the fastest of {max(1, options.rounds)}")
    print(f"lines/s     {report.lines / seconds:.0f}")
    found = Counter(claim.severity for claim in report.claims)
    for severity in Severity:
        print(f"{severity:<11} {found[severity]}, {1000 * found[severity] / max(1, report.lines):.3f} per 1000 lines")


if __name__ == "__main__":
    main()
