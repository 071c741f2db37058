"""Published files that were changed, deleted, or replaced by something that is no file."""

from __future__ import annotations

import os
import shutil

import pytest
from command_line import build
from typer.testing import CliRunner

SUFFIXES = (".md", ".html", ".dsse.json", ".tlog-proof")


def run(*arguments):
    return CliRunner().invoke(build(), [str(argument) for argument in arguments])


def verify(*arguments):
    return run("certificates", "verify", *arguments)


def pipe(path):
    os.mkfifo(path)


def folder(path):
    path.mkdir()


def link(path):
    path.symlink_to(path.with_name("elsewhere"))


def device(path):
    path.symlink_to("/dev/zero")


def test_an_html_page_as_it_was_published_passes(judged):
    assert verify(judged.view.with_suffix(".html")).exit_code == 0


@pytest.mark.parametrize(("before", "after"), [("REQUIRES_REMEDIATION", "APPROVED"), ("</body>", "<p>ok</p></body>")])
def test_an_html_page_that_says_otherwise_is_found(judged, before, after):
    page = judged.view.with_suffix(".html")
    page.write_text(page.read_text().replace(before, after))
    for target in (page, judged.view, judged.record, judged.id, "--all"):
        assert verify(target).exit_code == 7
    assert run("gate", "train.py").exit_code == 7


def test_an_html_page_of_another_layout_is_not_called_forged(judged):
    page = judged.view.with_suffix(".html")
    page.write_text(page.read_text().replace("esper-agents, layout 2.", "esper-agents, layout 0."))
    assert verify(page).exit_code == 4
    assert verify(judged.id).exit_code == 4
    assert run("certificates", "repair").exit_code == 0
    assert verify(judged.id).exit_code == 0


def test_deleted_files_are_missing_until_a_repair_writes_them_again(judged):
    for suffix in SUFFIXES:
        path = judged.view.with_suffix(suffix)
        data = path.read_bytes()
        path.unlink()
        done = verify("--all")
        assert done.exit_code == 8
        assert path.name in "".join(done.stdout.split())
        path.write_bytes(data)
    for suffix in SUFFIXES[1:]:
        judged.view.with_suffix(suffix).unlink()
    assert run("certificates", "repair").exit_code == 0
    assert verify("--all").exit_code == 0


def test_a_deleted_notice_is_missing(judged):
    assert run("certificates", "revoke", judged.id, "--reason", "the data set was mislabelled").exit_code == 0
    (notice,) = judged.view.parent.glob("*.notice.json")
    assert verify("--all").exit_code == 0
    notice.unlink()
    assert verify("--all").exit_code == 8


def test_a_notice_replaced_by_another_text_is_not_authentic(judged):
    run("certificates", "revoke", judged.id, "--reason", "the data set was mislabelled")
    (notice,) = judged.view.parent.glob("*.notice.json")
    notice.write_text("{}")
    assert verify(judged.id).exit_code == 7


def test_a_tree_without_any_published_certificate_is_no_loss(judged):
    shutil.rmtree(judged.root / "docs")
    done = verify("--all")
    assert done.exit_code == 0
    assert "no certificate of this archive is published in this tree" in " ".join(done.stdout.split())
    assert verify(judged.id).exit_code == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize(("suffix", "damage"), [*zip(SUFFIXES, (pipe, folder, link, device), strict=True)])
def test_what_is_no_regular_file_is_named_and_hangs_nobody(judged, suffix, damage):
    path = judged.view.with_suffix(suffix)
    path.rename(path.with_name("elsewhere"))
    damage(path)
    for target in (judged.id, "--all"):
        done = verify(target)
        assert done.exit_code == 7
        assert "not a regular file" in " ".join(done.stdout.split())
