from __future__ import annotations

import json
import zlib

import pytest

from esper_agents.errors import IntegrityError
from esper_agents.file_bundle import BundledFile, pack_files, unpack_files, write_files

FILES = (
    BundledFile("train.py", b"import torch\n"),
    BundledFile("tools/run.sh", b"#!/bin/sh\n", is_executable=True),
    BundledFile("empty", b""),
)


def test_a_bundle_contains_what_was_packed_whatever_the_order():
    data = pack_files(FILES, {"commit": "a" * 40})
    assert pack_files(reversed(FILES), {"commit": "a" * 40}) == data
    files, facts = unpack_files(data, 1000)
    assert set(files) == set(FILES)
    assert facts == {"commit": "a" * 40}


def test_files_are_written_with_their_content_and_for_their_owner_only(tmp_path):
    write_files(tmp_path, FILES)
    assert {path: (tmp_path / path).read_bytes() for path in ("train.py", "tools/run.sh", "empty")} == {
        file.path: file.content for file in FILES
    }
    assert (tmp_path / "tools/run.sh").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "train.py").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "path",
    [
        "../evil",
        "/etc/evil",
        "a/../../evil",
        "",
        "a//b",
        ".git/hooks/post-checkout",
        "sub/.GIT/config",
        "a\0b",
        "\ud800",
    ],
)
def test_a_path_that_leads_out_of_the_folder_or_into_git_is_refused(tmp_path, path):
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(IntegrityError):
        write_files(inside, [BundledFile(path, b"evil")])
    assert list(tmp_path.rglob("*")) == [inside]


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_a_path_that_is_there_already_is_refused(tmp_path, paths):
    with pytest.raises(IntegrityError, match="twice"):
        write_files(tmp_path, [BundledFile(path, b"") for path in paths])


def test_a_link_in_the_folder_is_not_followed(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "train.py").symlink_to(tmp_path / "outside")
    with pytest.raises(IntegrityError):
        write_files(inside, FILES)
    assert not (tmp_path / "outside").exists()


def test_a_bundle_larger_than_allowed_is_refused_before_it_is_unpacked():
    data = pack_files([BundledFile("zeros", bytes(200 * 2**20))], {})
    assert len(data) < 2**20
    with pytest.raises(IntegrityError, match="too large"):
        unpack_files(data, 2**20)


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_damaged_bundle_is_refused(cut):
    data = pack_files(FILES, {})
    with pytest.raises(IntegrityError):
        unpack_files(data[:-cut], 1000)
    with pytest.raises(IntegrityError):
        unpack_files(b"nonsense" + data, 1000)


@pytest.mark.parametrize(
    "head",
    [
        {"format": "esper-bundle-1", "facts": {}, "files": [["a", 1, "0" * 64, False]]},
        {"format": "esper-bundle-1", "facts": {}, "files": [["a", 2, "0" * 64, False], ["b", -1, "0" * 64, False]]},
        {"format": "esper-bundle-2", "facts": {}, "files": []},
        {"format": "esper-bundle-1", "facts": {}, "files": [["a"]]},
        {"format": "esper-bundle-1", "facts": [], "files": []},
        [],
    ],
)
def test_a_list_that_does_not_match_the_contents_is_refused(head):
    with pytest.raises(IntegrityError):
        unpack_files(zlib.compress(json.dumps(head).encode() + b"\nx"), 1000)
