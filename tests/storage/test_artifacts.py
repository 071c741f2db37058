from __future__ import annotations

import os
from hashlib import sha256

import pytest

from esper_agents.errors import IntegrityError, NotFoundError, StorageError
from esper_agents.storage.artifacts import Artifacts


@pytest.fixture
def made(tmp_path):
    """Return a file that a tool made."""
    file = tmp_path / "trace.json"
    file.write_bytes(b"{}" * 1000)
    return file


@pytest.fixture
def artifacts(tmp_path):
    return Artifacts(tmp_path / "home" / "artifacts")


def test_an_artifact_is_kept_by_the_digest_of_its_bytes(artifacts, made):
    kept = artifacts.keep(made, "trace.json", "application/json")
    assert kept.sha256 == sha256(made.read_bytes()).hexdigest()
    assert (kept.name, kept.size_bytes, kept.media_type) == ("trace.json", 2000, "application/json")
    assert artifacts.path(kept.sha256).read_bytes() == made.read_bytes()


def test_equal_bytes_are_kept_once(artifacts, made, tmp_path):
    first = artifacts.keep(made, "one.json", "application/json")
    second = artifacts.keep(made, "two.json", "application/json")
    assert first.sha256 == second.sha256
    assert sum(path.is_file() for path in (tmp_path / "home").rglob("*")) == 1


def test_nobody_else_may_look_into_the_folder(artifacts, made, tmp_path):
    artifacts.keep(made, "trace.json", "application/json")
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "home" / "artifacts").rglob("*")} == {0}


def test_what_no_row_names_is_found_once_it_is_old_enough(artifacts, tmp_path):
    named, unnamed, young = (
        artifacts.path(artifacts.keep_text(each, "a.txt", "text/plain").sha256) for each in (b"1", b"2", b"3")
    )
    copy = tmp_path / "home/artifacts/.incoming-1"
    copy.write_bytes(b"{")
    for each in (named, unnamed, copy):
        os.utime(each, (0, 0))
    found = artifacts.unnamed({named.name}, older_than_s=60)
    assert [each.path for each in found] == sorted((unnamed, copy))
    # A row may be about to name it.
    assert [each.path for each in artifacts.unnamed({named.name}, older_than_s=-60)] == sorted((unnamed, copy, young))


def test_a_name_is_no_path(artifacts, made):
    assert artifacts.keep(made, "../../etc/x y", "text/plain").name == ".._.._etc_x_y"


@pytest.mark.parametrize("name", ["0" * 64, "../" + "0" * 61, "latest", ""])
def test_what_was_never_kept_is_not_found(artifacts, name):
    with pytest.raises(NotFoundError, match="no artifact named"):
        artifacts.path(name)


def test_an_artifact_that_was_changed_is_noticed(artifacts, made):
    kept = artifacts.keep(made, "trace.json", "application/json")
    place = artifacts.path(kept.sha256)
    place.chmod(0o600)
    place.write_bytes(b"[]")
    with pytest.raises(IntegrityError, match="is corrupted"):
        artifacts.path(kept.sha256)


def test_what_cannot_be_kept_leaves_nothing_behind(artifacts, tmp_path):
    with pytest.raises(StorageError, match=r"'trace\.json' cannot be stored"):
        artifacts.keep(tmp_path / "missing", "trace.json", "application/json")
    (tmp_path / "home").write_text("a file in the way")
    file = tmp_path / "x"
    file.write_text("x")
    with pytest.raises(StorageError):
        artifacts.keep(file, "x", "text/plain")
    assert not list(tmp_path.rglob(".incoming*"))
