"""Tests of the lab: what hostile code becomes, and that it leaves nothing behind."""

import ast
import os
from contextlib import suppress
from pathlib import Path

import pytest

from esper_agents.errors import UsageError
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

torch = pytest.importorskip("torch", reason="no torch: NOTHING of the lab was run")

HOSTILE = Path(__file__).parents[2] / "benchmarks" / "hostile_targets"
EXPECTED = next(
    ast.literal_eval(each.value)
    for each in ast.parse((HOSTILE / "hostile.py").read_text()).body
    if isinstance(each, ast.Assign) and each.targets[0].id == "EXPECTED"
)


@pytest.fixture(scope="module")
def lab():
    with Lab(HOSTILE, LabSettings(timeout_s=30, memory_bytes=256 << 20)) as opened:
        yield opened


def run(lab, name, timeout_s=1.0, inputs=("randn(4)",)):
    with lab.worker() as worker:
        worker.load(TargetSpec(name, inputs))
        worker.ask("timing", {"phase": "warm", "calls": 1, "train": False, "seed": 0}, timeout_s=timeout_s)


def descendants(pid):
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with suppress(OSError):
                parents[int(path.name)] = int((path / "stat").read_bytes().rpartition(b")")[2].split()[1])
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", EXPECTED)
def test_hostile_code_has_an_outcome_with_a_name_and_leaves_no_process(lab, name):
    before = descendants(os.getpid())
    with pytest.raises(WorkerError) as caught:
        run(lab, f"hostile.py:{name}")
    assert caught.value.outcome == EXPECTED[name]
    assert "Traceback" not in caught.value.problem
    assert caught.value.remedy
    assert descendants(os.getpid()) <= before


def test_an_exception_names_the_line_of_the_user(lab):
    with pytest.raises(WorkerError) as caught:
        run(lab, "hostile.py:raises")
    line = (HOSTILE / "hostile.py").read_text().splitlines().index('    raise ValueError("no")') + 1
    assert caught.value.where == f"hostile.py:{line}"
    assert caught.value.problem == "hostile.py:raises raised ValueError: no"


def test_a_sandboxed_worker_cannot_write_the_project(lab):
    with pytest.raises(WorkerError) as caught:
        run(lab, "hostile.py:writes_the_project")
    assert "OSError" in caught.value.problem or "PermissionError" in caught.value.problem
    assert not (HOSTILE / "written.txt").exists()


def test_what_is_printed_is_kept_to_its_end(lab):
    with pytest.raises(WorkerError) as caught:
        run(lab, "hostile.py:prints_without_end", timeout_s=10)
    assert caught.value.said.endswith("x" * 100)
    assert len(caught.value.said) <= 4_000


def test_the_lab_goes_on_after_hostile_code(lab):
    with lab.worker() as worker:
        assert worker.load(TargetSpec("nothing.py:nothing", ("randn(4)",))).kind == "function"


def test_no_descriptor_is_left_after_workers(lab):
    def spend():
        for name in ("raises", "segfaults", "exits_with_a_lie"):
            with pytest.raises(WorkerError):
                run(lab, f"hostile.py:{name}")

    spend()
    before = len(list(Path("/proc/self/fd").iterdir()))
    spend()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("name", "inputs", "problem"),
    [
        ("absent.py:run", (), "there is no file 'absent.py'"),
        ("nothing.py:absent", (), "'nothing.py' has no 'absent'"),
        ("nothing.py", (), "invalid target name 'nothing.py'"),
        ("no_such_module:run", (), "there is no module 'no_such_module'"),
        ("nothing.py:nothing", (), "'nothing.py:nothing' needs inputs: x"),
        ("nothing.py:nothing", ("rand(",), "invalid input 'rand('"),
        ("torch.nn:Linear", ("randn(4)",), "'torch.nn:Linear' needs arguments: in_features, out_features"),
    ],
)
def test_a_target_that_cannot_be_used_is_bad_input(lab, name, inputs, problem):
    with pytest.raises(UsageError) as caught:
        run(lab, name, inputs=inputs)
    assert caught.value.problem == problem
    assert caught.value.remedy


def test_how_memory_is_bounded_follows_from_the_device(lab):
    with lab.worker() as one, lab.worker(device="cuda:1") as other:
        assert ("address_space_bytes" in one.held, "private_bytes" in one.held) == (True, False)
        assert ("address_space_bytes" in other.held, "private_bytes" in other.held) == (False, True)


def test_outcomes_of_the_benchmark_are_outcomes_there_are():
    assert set(EXPECTED.values()) <= set(WorkerFailureKind)


def test_what_one_measurement_compiled_no_other_finds(lab):
    found = []
    for _ in range(2):
        lab.begin_measurement()
        for _ in range(2):
            with lab.worker(label="candidate") as worker:
                cache = (worker.scratch / "compiled").readlink()
                found.append([path.name for path in cache.iterdir()])
                (cache / "planted.so").write_text("x")
    assert found == [[], ["planted.so"], [], ["planted.so"]]
