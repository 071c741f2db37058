"""Counts of floating-point operations are those by hand, on every module of the benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "flops.py"


@pytest.mark.slow
def test_every_count_is_the_one_by_hand():
    done = subprocess.run([sys.executable, str(BENCHMARK)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unlike hand 0" in done.stdout
