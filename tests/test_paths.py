"""The data directory, by environment and platform."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from esper_agents.paths import home, project_key


@pytest.mark.parametrize(
    ("platform", "given", "expected"),
    [
        ("linux", {}, "~/.local/share/esper-agents"),
        ("darwin", {}, "~/Library/Application Support/esper-agents"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/esper-agents"),
        ("linux", {"XDG_DATA_HOME": "relative"}, "~/.local/share/esper-agents"),
        ("linux", {"XDG_DATA_HOME": "/data", "ESPER_HOME": "~/mine"}, "~/mine"),
    ],
)
def test_the_data_directory_is_that_of_the_user(monkeypatch, platform, given, expected):
    for name in ("ESPER_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert home() == Path(expected).expanduser()


def test_the_folder_of_a_project_has_its_name_and_a_digest_of_its_path():
    assert project_key(Path("/a/my project")) == "my-project-" + project_key(Path("/a/my project"))[-12:]
    assert project_key(Path("/a/x")) != project_key(Path("/b/x"))
