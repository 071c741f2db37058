"""Whose Ray cluster is asked, and which code asks it."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("ray", reason="the extra `ray` is not installed: the connection to a cluster was NOT tested")
from esper_agents.api.cluster import connection
from esper_agents.api.cluster.probe import own_head
from esper_agents.errors import ClusterError, UsageError


@pytest.fixture
def address_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray" / "ray_current_cluster"


@pytest.mark.parametrize("path", [None, ".", ""])
def test_a_project_does_not_replace_the_program_that_gets_the_token(tmp_path, monkeypatch, address_file, path):
    project = tmp_path / "project"
    (project / "esper_agents").mkdir(parents=True)
    (project / "esper_agents" / "__init__.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"
    )
    monkeypatch.chdir(project)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    with pytest.raises(ClusterError, match="no Ray cluster answers"), connection.connect("auto"):
        pass
    assert [found.name for found in (project / "esper_agents").iterdir()] == ["__init__.py"]


def test_a_link_does_not_choose_the_cluster(address_file, tmp_path):
    (tmp_path / "elsewhere").write_text("127.0.0.1:6379")
    address_file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="not a regular file of this user") as caught, connection.connect():
        pass
    assert "--cluster HOST:PORT" in caught.value.remedy


def test_a_file_of_another_user_does_not_choose_the_cluster(address_file, monkeypatch):
    address_file.write_text("127.0.0.1:6379")
    assert own_head(address_file) == "127.0.0.1:6379"
    address_file.chmod(0o666)
    with pytest.raises(PermissionError):
        own_head(address_file)
    address_file.chmod(0o644)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(PermissionError):
        own_head(address_file)


def test_a_file_without_an_address_is_refused(address_file):
    address_file.write_text("--port 1")
    with pytest.raises(ValueError, match="--port 1"):
        own_head(address_file)
