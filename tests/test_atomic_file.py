from __future__ import annotations

import os

import pytest

from esper_agents.atomic_file import atomic_file, write_atomically


@pytest.fixture
def old(tmp_path):
    """Return a file with content."""
    file = tmp_path / "report.json"
    file.write_bytes(b"old")
    return file


def test_a_file_is_replaced_with_the_mode_that_was_asked_for(old) -> None:
    write_atomically(old, b"new", mode=0o640)
    assert old.read_bytes() == b"new"
    assert old.stat().st_mode & 0o7777 == 0o640
    assert [path.name for path in old.parent.iterdir()] == [old.name]


def test_an_error_leaves_the_old_file_and_nothing_else(old) -> None:
    def stop() -> None:
        with atomic_file(old, mode=0o600) as made:
            made.stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert old.read_bytes() == b"old"
    assert [path.name for path in old.parent.iterdir()] == [old.name]


def test_only_the_user_may_read_a_file_that_is_not_complete(old) -> None:
    with atomic_file(old, mode=0o644) as made:
        assert made.scratch.stat().st_mode & 0o7777 == 0o600
        assert old.read_bytes() == b"old"


def test_a_fixed_scratch_name_takes_over_what_a_killed_process_left(old) -> None:
    scratch = old.with_name("report.new")
    scratch.symlink_to(old)
    write_atomically(old, b"new", mode=0o600, scratch=scratch)
    assert old.read_bytes() == b"new"
    assert not scratch.exists()


def test_the_path_may_be_known_only_when_the_content_is(old) -> None:
    with atomic_file(old, mode=0o600) as made:
        made.stream.write(b"x")
        made.path = old.with_name("other")
    assert old.read_bytes() == b"old"
    assert old.with_name("other").read_bytes() == b"x"


def test_names_may_be_relative_to_an_open_folder(old, monkeypatch) -> None:
    monkeypatch.chdir("/")
    folder = os.open(old.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        write_atomically(type(old)(old.name), b"new", mode=0o600, folder=folder)
    finally:
        os.close(folder)
    assert old.read_bytes() == b"new"


def test_an_open_scratch_file_is_emptied_before_it_is_written(old) -> None:
    scratch = old.with_name("scratch")
    scratch.write_bytes(b"longer than what follows")
    descriptor = os.open(scratch, os.O_RDWR)
    write_atomically(old, b"new", mode=0o600, scratch=scratch, descriptor=descriptor)
    assert old.read_bytes() == b"new"
