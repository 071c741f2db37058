"""Interpreters are asked where their parts lie: real ones, and programs that are none."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from esper_agents.errors import UsageError
from esper_agents.torchlab.interpreter import interpreter


def _program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def _covers(places, path):
    return any(place == path or place in path.parents for place in places)


def test_everything_an_interpreter_needs_is_among_its_places():
    found = interpreter(sys.executable)
    assert found.version == sys.version_info[:3]
    needed = [sys.prefix, sys.base_prefix, sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"]]
    for path in (*needed, sys.executable, Path(sys.executable).resolve()):
        assert _covers(found.places, Path(path)), path


def test_a_virtual_environment_is_known_by_its_own_link(tmp_path):
    venv.create(tmp_path / "its own", with_pip=False, symlinks=True)
    (tmp_path / "python").symlink_to(tmp_path / "its own" / "bin" / "python")
    by_path = interpreter(str(tmp_path / "its own" / "bin" / "python"))
    assert by_path.executable == str(tmp_path / "its own" / "bin" / "python")
    assert _covers(by_path.places, tmp_path / "its own" / "pyvenv.cfg")
    assert _covers(by_path.places, Path(sys.executable).resolve())


def test_a_script_that_finds_the_interpreter_is_followed(tmp_path):
    shim = _program(tmp_path / "python", f'exec "{sys.executable}" "$@"')
    assert interpreter(shim).executable == sys.executable


def test_folders_of_editable_installations_are_among_the_places(tmp_path):
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    for name in ("by_path", "by_finder"):
        (tmp_path / name).mkdir()
    where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = Path(subprocess.run([python, "-I", "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    (site / "a.pth").write_text(f"{tmp_path / 'by_path'}\n")
    (site / "b.pth").write_text("import editable; editable.install()\n")
    (site / "editable.py").write_text(
        f"import sys\nMAPPING = {{'x': {str(tmp_path / 'by_finder')!r}}}\n"
        "class Finder:\n    @classmethod\n    def find_spec(cls, name, path=None, target=None):\n        return None\n"
        "def install():\n    sys.meta_path.append(Finder)\n"
    )
    places = interpreter(str(python)).places
    assert _covers(places, tmp_path / "by_path")
    assert _covers(places, tmp_path / "by_finder")


def test_an_interpreter_in_a_home_does_not_show_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    venv.create(tmp_path, with_pip=False, symlinks=True)
    places = interpreter(str(tmp_path / "bin" / "python")).places
    assert _covers(places, tmp_path / "bin" / "python")
    assert _covers(places, tmp_path / "pyvenv.cfg")
    assert not _covers(places, tmp_path / ".ssh")


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no interpreter at") as caught:
        interpreter(str(tmp_path / "python"))
    assert "--python" in caught.value.remedy


@pytest.mark.parametrize("text", ["echo hello", "exit 3", "echo '{\"esper\": 7}'", "kill -9 $$"])
def test_what_is_no_python_is_refused(tmp_path, text):
    with pytest.raises(UsageError, match="is not a Python 3 interpreter") as caught:
        interpreter(_program(tmp_path / "python", text))
    assert caught.value.remedy.startswith("check it with:")


def test_what_does_not_run_is_refused(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/no/such/program\n")
    broken.chmod(0o755)
    with pytest.raises(UsageError, match="does not run"):
        interpreter(str(broken))


def test_an_interpreter_that_is_too_old_is_refused(tmp_path):
    answer = json.dumps({"esper": {"executable": "/usr/bin/python3.8", "version": [3, 8, 1], "places": []}})
    with pytest.raises(UsageError, match=r"is Python 3\.8\.1") as caught:
        interpreter(_program(tmp_path / "python", f"echo '{answer}'"))
    assert caught.value.remedy == "name an interpreter of Python 3.10 or newer"
