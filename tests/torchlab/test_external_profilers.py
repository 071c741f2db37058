"""Witnesses outside: what they said is read as they wrote it, and one that is not there says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from esper_agents.torchlab import external_profilers

# As py-spy 0.4 writes `--format raw --full-filenames`, and perf 6.1 `report -t` with samples.
STACKS = [
    "<module> (/p/train.py:9);step (/p/train.py:5);forward (/p/net.py:3);linear (/lib/torch/nn/functional.py:9) 60",
    "<module> (/p/train.py:9);step (/p/train.py:6);backward (/lib/torch/_tensor.py:9) 30",
    "wait (/usr/lib/threading.py:9) 10",
    "not a stack",
]
LIBRARIES = ["   70\tlibtorch_cpu.so", "  20\t[kernel.kallsyms]", "", "  10\tlibpython3.11.so.1.0", "# a comment"]


def test_stacks_are_summed_by_function_of_the_project():
    seen = external_profilers._of_stacks("0.4", STACKS, Path("/p"))
    assert [(each.where, each.own_share, each.total_share) for each in seen.top] == [
        ("net.py:forward", 0.6, 0.6),
        ("train.py:step", 0.3, 0.9),
        ("train.py:<module>", 0.0, 0.9),
    ]
    assert seen.samples == 100


def test_samples_of_native_code_are_summed_by_library():
    seen = external_profilers._of_libraries("6.1", LIBRARIES)
    assert [(each.where, each.own_share) for each in seen.top] == [
        ("libtorch_cpu.so", 0.7),
        ("[kernel.kallsyms]", 0.2),
        ("libpython3.11.so.1.0", 0.1),
    ]


def test_without_a_sample_nothing_is_said_of_where_the_time_goes():
    assert external_profilers._of_stacks("0.4", [], Path("/p")).missing
    assert external_profilers._of_libraries("6.1", []).missing


def test_tools_that_are_not_installed_are_named_with_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    described = [
        external_profiler.described()
        for external_profiler in external_profilers.run_external_profilers(os.getpid(), 0.1, tmp_path)
    ]
    assert [each["tool"] for each in described] == ["py-spy", "perf", "nsys"]
    assert all(each["missing"] and each["remedy"] and "top" not in each for each in described)
    assert not external_profilers.installed()


@pytest.mark.parametrize("tool", ["py-spy", "perf"])
def test_a_tool_that_is_refused_says_what_it_said_itself(monkeypatch, tmp_path, tool):
    script = tmp_path / tool
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo perf version 9 && exit 0\necho not permitted >&2\nexit 1\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    seen = next(
        external_profiler
        for external_profiler in external_profilers.run_external_profilers(os.getpid(), 0.1, tmp_path)
        if external_profiler.tool == tool
    )
    assert seen.missing == "not permitted"
    assert seen.remedy


def test_perf_looks_at_a_process_where_it_may():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            seen = external_profilers.perf(busy.pid, 0.3)
        finally:
            busy.kill()
    if seen.missing:
        pytest.skip(f"perf: {seen.missing}")
    assert sum(each.own_share for each in seen.top) <= 1
    assert seen.samples > 0
