from __future__ import annotations

import os
from hashlib import sha256

import pytest
from memory_samples import note, source

from esper_agents.memory.freshness import FileCache


def changed(root, *sources):
    return FileCache(root).told([note("a", sources=sources)])[0].changed


def test_a_file_is_what_it_was_or_it_is_named(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_bytes(b"x = 1\n")
    assert changed(tmp_path, source("src/a.py")) == ()
    assert changed(tmp_path, source("src/a.py", b"x = 2\n"), source("gone.py")) == ("src/a.py", "gone.py")


def test_a_file_that_was_read_in_two_states_may_be_in_either(tmp_path):
    (tmp_path / "a.py").write_bytes(b"two")
    assert changed(tmp_path, source("a.py", b"one"), source("a.py", b"two")) == ()


def test_each_file_is_read_once(tmp_path):
    (tmp_path / "a.py").write_bytes(b"one")
    tree = FileCache(tmp_path)
    assert tree.digest("a.py") == sha256(b"one").hexdigest()
    (tmp_path / "a.py").write_bytes(b"two")
    assert tree.digest("a.py") == sha256(b"one").hexdigest()


def test_links_count_inside_the_project_only(tmp_path):
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (root / "real/a.py").write_bytes(b"x = 1\n")
    (tmp_path / "outside.py").write_bytes(b"x = 1\n")
    (root / "link.py").symlink_to("real/a.py")
    (root / "folder").symlink_to("real")
    (root / "out.py").symlink_to(tmp_path / "outside.py")
    (root / "away").symlink_to(tmp_path)
    (root / "loop").symlink_to("loop")
    assert changed(root, source("link.py"), source("folder/a.py")) == ()
    for path in ("out.py", "away/outside.py", "../outside.py", str(tmp_path / "outside.py"), "loop", "loop/x"):
        assert changed(root, source(path)) == (path,)


@pytest.mark.parametrize("path", ["", ".", "\0", "a" * 5000, "real/", "//", "pipe"])
def test_what_is_no_file_has_changed(tmp_path, path):
    (tmp_path / "real").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert changed(tmp_path, source(path)) == (path,)
