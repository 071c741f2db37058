"""Attempts of measured code to leave its sandbox, with the project and its environment below the temporary directory.

The attempts stand in `benchmarks/escape_probes.toml`. A sample runs by default, all of them under the `slow` marker.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from cages import Cage, cage_for

from esper_agents.torchlab import bubblewrap
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError

_SPEC = importlib.util.spec_from_file_location("escapes", Path(__file__).parents[2] / "benchmarks" / "escapes.py")
escapes = importlib.util.module_from_spec(_SPEC)
sys.modules["escapes"] = escapes
_SPEC.loader.exec_module(escapes)

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
MODES = ["walls", "bubblewrap", "landlock-walls", "landlock", "ordinary user: walls", "ordinary user: landlock"]
SIZES = [pytest.param(9, id="sample"), pytest.param(1, id="all", marks=pytest.mark.slow)]


@pytest.fixture
def temp(request, monkeypatch):
    """Make a shared temporary directory that an ordinary user may use, and have ours lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="esper-shared-", dir=getattr(request, "param", None))).resolve()
    folder.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    shutil.rmtree(folder)


def _tried(cage: Cage, around, *, sample: int, before=None):
    sibling = cage.fork("import os\nopen('private', 'w').write('mine')\nresult = os.getcwd()")
    names = {
        **around.names,
        "parent": cage.ask(do="?")["pid"],
        "sibling": sibling,
        "other_scratch": cage.hear(sibling)["result"],
        "has_own_ipc": cage.run("result = held['walled'] or held['own_network']"),
    }
    chosen = escapes.probes(names, sample=sample)
    if before:
        chosen = before(chosen)
    state = around.digest()
    heard = cage.run(f"{escapes.source(chosen)}\nresult = [got_through, broken]")
    cage.kill(sibling)
    assert isinstance(heard, list), heard
    return chosen, *heard, around.digest() == state


@pytest.mark.sample(3)
@pytest.mark.parametrize("sample", SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_gets_out_of_the_sandbox(temp, mode, sample):
    how, python, prefix = mode.rpartition(" ")[2], sys.executable, ()
    if mode.startswith("ordinary"):
        if os.geteuid() != 0:
            pytest.skip("only root can become somebody else; the other modes are an ordinary user's")
        python, prefix = "/usr/bin/python3", NOBODY
        if not Path(python).exists():
            pytest.skip("every interpreter is root's alone: the sandbox of an ordinary user was NOT tested")
    with escapes.surroundings(temp, python=python) as around:
        scratch = temp / "lab"
        if prefix:
            for each in (around.project, around.venv, around.home):
                for path in [each, *each.rglob("*")]:
                    os.chown(path, 65534, 65534, follow_symlinks=False)
        venv_python = str(around.venv / "bin" / "python")
        with cage_for(how, scratch, around.project, python=venv_python, prefix=prefix) as cage:
            chosen, got_through, broken, is_unchanged = _tried(cage, around, sample=sample)
    assert (got_through, broken) == ([], [])
    assert is_unchanged
    assert len(chosen) >= (200 if sample == 1 else 20)


def test_every_probe_does_what_it_says_where_there_is_no_sandbox(temp, tmp_path):
    def on_own_files(chosen):
        own = []
        for number, probe in enumerate(each for each in chosen if each.is_possible):
            names = dict(probe.names)
            if "folder" in names:
                folder = tmp_path / f"probe-{number}"
                folder.mkdir()
                (folder / "file").write_text("x")
                names |= {"folder": str(folder), "file": str(folder / "file")}
            own.append(replace(probe, names=names))
        return own

    if os.geteuid() != 0:
        pytest.skip("an ordinary user may not do all of them")
    with escapes.surroundings(temp) as around, cage_for("none", temp / "lab", around.project) as cage:
        chosen, got_through, broken, _ = _tried(cage, around, sample=1, before=on_own_files)
    assert broken == []
    assert [each.name for each in chosen if each.name not in got_through] == []


@pytest.mark.parametrize(
    "temp",
    [pytest.param(None, id="tmp"), pytest.param("/dev/shm", id="shm", marks=pytest.mark.slow)],  # noqa: S108
    indirect=True,
)
@pytest.mark.parametrize("is_bubblewrapped", [False, True])
def test_a_measurement_of_a_project_below_the_temporary_directory_changes_nothing(temp, monkeypatch, is_bubblewrapped):
    pytest.importorskip("torch", reason="no torch: NOTHING of the lab was run")
    if is_bubblewrapped and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed and was NOT tested")
    if not is_bubblewrapped:
        monkeypatch.setattr(bubblewrap, "find", lambda: None)
    with escapes.surroundings(temp) as around:
        tried = [around.names["project"] + "/.git/hooks", around.names["site"]]
        # A worker has a /dev/shm of its own, which is gone with it.
        tried += [] if temp.is_relative_to("/dev/shm") else [str(temp)]  # noqa: S108
        (around.project / "target.py").write_text(
            "import os, tempfile\n"
            "def try_to_write(path):\n    try:\n        open(path, 'w')\n    except OSError:\n        return []\n"
            "    return [path]\n"
            "def target(x):\n"
            f"    done = [path for each in {tried!r} for path in try_to_write(each + '/planted')]\n"
            "    own = tempfile.mkstemp()[1]\n"
            "    raise RuntimeError(str([done, own.startswith(os.environ['TMPDIR'])]))\n"
        )
        state = around.digest()
        with (
            Lab(around.project, LabSettings(python=str(around.venv / "bin" / "python"))) as lab,
            lab.worker() as worker,
        ):
            worker.load(TargetSpec("target.py:target", ("randn(4)",)))
            with pytest.raises(WorkerError, match=r"\[\[\], True\]"):
                worker.ask("timing", {"phase": "warm", "calls": 1, "train": False, "seed": 0})
        assert around.digest() == state
