"""Which sandbox is chosen, and what it shows: programs really run in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cages import view_of

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab import sandbox
from esper_agents.torchlab.sandbox import Sandbox, SandboxChoice
from esper_agents.torchlab.worker.process import landlock

NEEDS_LANDLOCK = pytest.mark.skipif(not landlock.version(), reason="no Landlock: what comes second was NOT tested")

TEXT_OF = """
def text_of(path):
    try:
        return open(path).read()
    except PermissionError:
        return None
"""


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "the project"
    root.mkdir()
    (root / "model.py").write_text("answer = 42\n")
    return root


@pytest.fixture
def bubblewrapped():
    """Return what runs code under bubblewrap with a view and returns what it leaves in `result`."""

    def run(view, code, **options):
        choice = sandbox.choose(view, is_waived=False)
        if choice.sandbox is not Sandbox.BUBBLEWRAP:
            pytest.skip(f"bubblewrap was NOT tested: {choice.why_not}")
        argv = ["-I", "-c", f"import json, os\n{code}\nprint(json.dumps(result))"]
        done = subprocess.run(
            sandbox.command(choice, view, argv),
            env=sandbox.environment(view.scratch),
            capture_output=True,
            check=False,
            text=True,
            **options,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def _path_with(folder, monkeypatch, *, script=None):
    """Make a PATH on which bubblewrap is a script, or is not."""
    folder.mkdir()
    if script is not None:
        (folder / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_bubblewrap_comes_first(tmp_path, project):
    choice = sandbox.choose(view_of(tmp_path, project), is_waived=False)
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed and was NOT tested")
    assert choice.sandbox is Sandbox.BUBBLEWRAP or choice.why_not
    assert choice.described()["landlock"] == landlock.version()


@NEEDS_LANDLOCK
def test_other_systems_than_linux_have_no_sandbox_and_say_so(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert sandbox.available_sandboxes().startswith("none; bubblewrap and Landlock need Linux")


def test_sandboxes_are_named_without_a_trial(tmp_path, monkeypatch):
    monkeypatch.setattr("esper_agents.torchlab.worker.process.landlock.version", lambda: 0)
    _path_with(tmp_path / "bin", monkeypatch)
    assert sandbox.available_sandboxes() == "none; install bubblewrap"
    _path_with(tmp_path / "more", monkeypatch, script="exit 1")
    assert sandbox.available_sandboxes() == "bubblewrap"


def test_landlock_comes_second_and_says_why(tmp_path, project, monkeypatch):
    _path_with(tmp_path / "bin", monkeypatch)
    choice = sandbox.choose(view_of(tmp_path, project), is_waived=False)
    assert choice.sandbox is Sandbox.LANDLOCK
    assert choice.described()["why_not"] == ["bubblewrap: it is not installed"]


@NEEDS_LANDLOCK
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 0", "it exited with 0"),
        ("kill -9 $$", "it exited with -9"),
    ],
)
def test_a_bubblewrap_that_does_not_hold_is_not_used(tmp_path, project, monkeypatch, script, why):
    _path_with(tmp_path / "bin", monkeypatch, script=script)
    choice = sandbox.choose(view_of(tmp_path, project), is_waived=False)
    assert choice.sandbox is Sandbox.LANDLOCK
    assert why in choice.why_not[0]


def test_a_bubblewrap_without_walls_is_better_than_none(tmp_path, project, monkeypatch):
    real = shutil.which("bwrap")
    if real is None:
        pytest.skip("bubblewrap is not installed and was NOT tested")
    script = f'for each; do [ "$each" = CAP_SYS_ADMIN ] && exit 1; done; exec {real} "$@"'
    _path_with(tmp_path / "bin", monkeypatch, script=script)
    choice = sandbox.choose(view_of(tmp_path, project), is_waived=False)
    assert (choice.sandbox, choice.can_wall) == (Sandbox.BUBBLEWRAP, False)


def test_without_any_sandbox_nothing_runs(tmp_path, project, monkeypatch):
    _path_with(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(landlock, "version", lambda: 0)
    with pytest.raises(EvidenceError, match="no sandbox works here") as caught:
        sandbox.choose(view_of(tmp_path, project), is_waived=False)
    assert "install bubblewrap" in caught.value.remedy
    assert "--no-sandbox" in caught.value.remedy


def test_a_person_may_do_without(tmp_path, project):
    view = view_of(tmp_path, project)
    choice = sandbox.choose(view, is_waived=True)
    assert choice.described() == {
        "sandbox": "none",
        "landlock": 0,
        "walls": False,
        "why_not": ["a person said --no-sandbox"],
    }
    assert sandbox.command(choice, view, ["-I"]) == [view.interpreter.executable, "-I"]


def test_the_root_of_the_file_system_is_no_project(tmp_path):
    with pytest.raises(UsageError, match="the root of the file system"):
        sandbox.choose(view_of(tmp_path, Path("/")), is_waived=False)


def test_a_project_that_is_to_be_hidden_is_refused(tmp_path, project):
    with pytest.raises(UsageError, match="contains the keys") as caught:
        sandbox.choose(view_of(tmp_path, project, hidden=[project]), is_waived=False)
    assert "ESPER_HOME" in caught.value.remedy


def test_user_code_gets_what_its_libraries_read_and_no_secrets(tmp_path, monkeypatch):
    given = {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "0",
        "TORCH_LOGS": "+dynamo",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "secret",
        "ESPER_SIGNING_KEY_FILE": "secret",
        "TORCH_HUB_TOKEN": "secret",
        "CUDA_SECRET_THING": "secret",
        "TORCHINDUCTOR_CACHE_DIR": "/elsewhere",
        "GITHUB_TOKEN": "secret",
        "PYTHONPATH": "/elsewhere",
        "HOME": "/elsewhere",
    }
    for name, text in given.items():
        monkeypatch.setenv(name, text)
    environment = sandbox.environment(tmp_path)
    assert "secret" not in environment.values()
    assert "/elsewhere" not in environment.values()
    assert environment["HOME"] == environment["TMPDIR"] == str(tmp_path)
    assert {"OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TORCH_LOGS", "LC_ALL", "PATH"} <= environment.keys()


def test_only_scratch_can_be_written_and_little_is_there(tmp_path, project, bubblewrapped):
    view = view_of(tmp_path, project)
    code = (
        "def can_write(folder):\n"
        "    try:\n        open(folder + '/x', 'w')\n    except OSError:\n        return False\n    return True\n"
        f"places = ({str(view.scratch)!r}, {str(project)!r}, '/', '/usr', '/dev')\n"
        "result = [can_write(each) for each in places]\n"
        "result += [os.path.exists(each) for each in ('/etc/passwd', '/run', '/var', '/boot', '/dev/tty')]\n"
        "import socket\nresult.append([name for _, name in socket.if_nameindex()])\n"
    )
    assert bubblewrapped(view, code) == [True, *[False] * 4, *[False] * 5, ["lo"]]


@pytest.mark.parametrize("name", ["with spaces", "-leading", "--bind", "späße", "new\nline", "a'b\"c$d"])
def test_a_project_may_be_called_anything(tmp_path, bubblewrapped, name):
    root = tmp_path / name
    root.mkdir()
    (root / "model.py").write_text("answer = 42\n")
    assert bubblewrapped(view_of(tmp_path, root), f"result = os.listdir({str(root)!r})") == ["model.py"]


def test_a_project_behind_a_link_is_shown(tmp_path, project, bubblewrapped):
    (tmp_path / "link").symlink_to(project)
    view = view_of(tmp_path, tmp_path / "link")
    assert bubblewrapped(view, f"result = os.listdir({str(project)!r})") == ["model.py"]


def test_what_is_hidden_in_a_project_is_empty_and_the_rest_is_not(tmp_path, project, bubblewrapped):
    (project / "data" / "keys").mkdir(parents=True)
    (project / "data" / "keys" / "signing.key").write_text("secret")
    (project / "data" / "table.csv").write_text("1,2")
    (project / "token").write_text("secret")
    view = view_of(tmp_path, project, hidden=[project / "data" / "keys", project / "token", project / "not there"])
    root = str(project)
    code = (
        f"{TEXT_OF}\nroot = {root!r}\nresult = [os.listdir(root + '/data/keys'), sorted(os.listdir(root + '/data'))]\n"
        "result += [text_of(root + '/data/table.csv'), text_of(root + '/token')]\n"
    )
    assert bubblewrapped(view, code) == [[], ["keys", "table.csv"], "1,2", None]
    grants = sandbox.grants(view)
    assert f"{root}/data/table.csv" in grants["readable"]
    assert f"{root}/data" in grants["listable"]
    assert not {root, f"{root}/data", f"{root}/data/keys", f"{root}/token"} & set(grants["readable"])


def test_a_revision_inside_what_is_hidden_is_shown(tmp_path, project, bubblewrapped):
    revision = tmp_path / "data" / "revisions" / "abc"
    revision.mkdir(parents=True)
    (revision / "model.py").write_text("answer = 41\n")
    (tmp_path / "data" / "signing.key").write_text("secret")
    view = view_of(tmp_path, project, revision, hidden=[tmp_path / "data"])
    code = f"result = [os.listdir({str(tmp_path / 'data')!r}), os.listdir({str(revision)!r})]"
    assert bubblewrapped(view, code) == [["revisions"], ["model.py"]]
    assert str(revision) in sandbox.grants(view)["readable"]


def test_a_project_that_is_a_home_does_not_show_its_keys(tmp_path, monkeypatch, bubblewrapped):
    home = tmp_path / "home"
    for folder in (".ssh", ".config/gh", "code"):
        (home / folder).mkdir(parents=True)
    (home / ".ssh" / "id").write_text("secret")
    (home / ".netrc").write_text("secret")
    (home / "code" / "model.py").write_text("answer = 42\n")
    monkeypatch.setenv("HOME", str(home))
    view = view_of(tmp_path, home)
    place = str(home)
    code = (
        f"{TEXT_OF}\nplace = {place!r}\nresult = [os.listdir(place + '/.ssh'), os.listdir(place + '/.config')]\n"
        "result += [text_of(place + '/.netrc'), os.listdir(place + '/code')]\n"
    )
    assert bubblewrapped(view, code) == [[], [], None, ["model.py"]]
    readable = sandbox.grants(view)["readable"]
    assert f"{place}/code" in readable
    assert not [each for each in readable if each.startswith(f"{place}/.")]


def test_a_project_that_holds_the_scratch_does_not_grant_that_of_others(tmp_path):
    view = view_of(tmp_path / "project", tmp_path / "project")
    grants = sandbox.grants(view)
    assert str(tmp_path / "project") not in grants["readable"]
    assert str(view.scratch) not in grants["readable"]


def test_open_descriptors_stay_open(tmp_path, project, bubblewrapped):
    reader, writer = os.pipe()
    code = f"os.write({writer}, b'through')\nresult = 1"
    assert bubblewrapped(view_of(tmp_path, project), code, pass_fds=[writer]) == 1
    os.close(writer)
    assert os.read(reader, 16) == b"through"
    os.close(reader)


def test_bubblewrap_ends_with_whoever_started_it(tmp_path, project):
    view = view_of(tmp_path, project)
    choice = sandbox.choose(view, is_waived=False)
    if choice.sandbox is not Sandbox.BUBBLEWRAP:
        pytest.skip(f"bubblewrap was NOT tested: {choice.why_not}")
    reader, writer = os.pipe()
    command = sandbox.command(choice, view, ["-I", "-c", "print('here', flush=True); import time; time.sleep(60)"])
    starts = f"import subprocess, time\nsubprocess.Popen({command!r}, stdout={writer})\ntime.sleep(60)"
    starter = subprocess.Popen([sys.executable, "-c", starts], pass_fds=[writer])
    os.close(writer)
    assert os.read(reader, 16) == b"here\n"
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    # The last one that can write is gone: the pipe ends.
    patience = time.monotonic() + 20
    assert os.read(reader, 16) == b""
    assert time.monotonic() < patience
    os.close(reader)


def test_a_choice_says_whether_the_network_is_its_own():
    assert SandboxChoice(Sandbox.BUBBLEWRAP).has_own_network
    assert not SandboxChoice(Sandbox.LANDLOCK).has_own_network
