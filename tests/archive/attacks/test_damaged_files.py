"""Published files that are cut short, filled with NUL, pipes, folders or links: noticed, and made again."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from esper_agents.api import open_project, verify_archive

SUFFIXES = (".md", ".dsse.json", ".tlog-proof")


def cut(share):
    return lambda path, data: path.write_bytes(data[: int(len(data) * share)])


def pipe(path, data):
    path.unlink()
    os.mkfifo(path)


def folder(path, data):
    path.unlink()
    path.mkdir()


def link(path, data):
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def device(path, data):
    path.unlink()
    path.symlink_to("/dev/zero")


DAMAGES = {
    "emptied": cut(0),
    "halved": cut(0.5),
    "one byte short": lambda path, data: path.write_bytes(data[:-1]),
    "filled with NUL": lambda path, data: path.write_bytes(bytes(len(data))),
    "half NUL": lambda path, data: path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2)),
    "NUL at its end": lambda path, data: path.write_bytes(data + b"\0"),
    "no UTF-8": lambda path, data: path.write_bytes(b"\xff\xfe" + data),
    "twice": lambda path, data: path.write_bytes(data * 2),
    "a pipe": pipe,
    "a folder": folder,
    "a link to nothing": link,
    "a link to a device": device,
}


def repaired(judged):
    async def run():
        async with open_project(judged.root) as project:
            return await project.certificates.repair()

    return asyncio.run(run())


@pytest.mark.sample(9)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_damaged_file_is_never_called_good_and_hangs_nobody(judged, exit_code, suffix, damage):
    path = judged.view.with_suffix(suffix)
    DAMAGES[damage](path, path.read_bytes())
    assert exit_code(path if suffix != ".tlog-proof" else judged.view) in {2, 4, 7}
    # The archive has it all the same; what lies in the place of a copy is told, or passed over.
    assert exit_code(judged.id) in {0, 7}
    asyncio.run(verify_archive(judged.root))


@pytest.mark.sample(3)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_beside_a_certificate_changes_nothing(judged, exit_code, damage):
    for name in ("other.dsse.json", f"{judged.view.stem}.7.notice.json", "other.tlog-proof"):
        path = judged.view.with_name(name)
        path.write_bytes(judged.record.read_bytes())
        DAMAGES[damage](path, path.read_bytes())
    assert exit_code(judged.view) == 0
    assert exit_code(judged.id[-12:]) == 0
    assert asyncio.run(verify_archive(judged.root)).faults == ()


@pytest.mark.sample(3)
@pytest.mark.parametrize("damage", [each for each in DAMAGES if each != "a folder"])
def test_a_repair_makes_every_damaged_file_again_and_then_nothing(judged, damage):
    paths = [judged.view.with_suffix(each) for each in (*SUFFIXES, ".html")]
    before = {path: path.read_bytes() for path in paths}
    for path, data in before.items():
        DAMAGES[damage](path, data)
    assert {Path(each) for each in repaired(judged).written} >= set(paths)
    assert {path: path.read_bytes() for path in paths} == before
    assert repaired(judged).written == ()


def test_a_folder_in_the_place_of_a_file_is_said_in_our_words(judged):
    folder(judged.view, b"")
    (said,) = repaired(judged).left
    assert said.startswith(judged.id)
    assert judged.view.is_dir()


@pytest.mark.parametrize("link_at", ["docs", "docs/ai", "docs/ai/agents"])
def test_published_files_behind_a_link_out_of_the_project_are_read_as_files_and_never_written(
    judged, exit_code, tmp_path, link_at
):
    outside = tmp_path / "outside"
    (judged.root / link_at).rename(outside)
    (judged.root / link_at).symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    assert exit_code(judged.view) == 0
    (view,) = outside.rglob("code_review*.md")
    view.write_text("mine\n")
    assert exit_code(judged.view) == 7
    repaired(judged)
    assert view.read_text() == "mine\n"
    assert {path for path in outside.rglob("*") if path.is_file()} == set(before)
