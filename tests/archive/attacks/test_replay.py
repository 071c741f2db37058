"""Genuine certificates that are shown where they do not belong: another repository, another commit, other names."""

from __future__ import annotations

import shutil

import pytest
from judged import FAULTY, judge


@pytest.fixture
def elsewhere(make_project, judged):
    """Return another repository with the same files, and with what is published of the certificate."""
    root = make_project({"train.py": FAULTY, "more.py": "x = 1\n"}, name="other")
    shutil.copytree(judged.root / "docs", root / "docs")
    return root


def there(root, path):
    return root / path.relative_to(path.parents[5])


def test_in_another_repository_with_the_same_files_it_decides_nothing(judged, elsewhere, exit_code):
    assert exit_code(judged.view) == 0
    assert exit_code(there(elsewhere, judged.view)) == 4
    assert exit_code(judged.view, elsewhere) == 4


def test_at_another_commit_it_counts_as_long_as_its_files_are_the_same(judged, git, exit_code):
    (judged.root / "more.py").write_text("x = 1\n")
    git(judged.root, "add", "more.py")
    git(judged.root, "commit", "-qm", "more")
    assert exit_code(judged.view) == 0
    judged.train.write_text(FAULTY + "\n")
    git(judged.root, "commit", "-qam", "changed")
    assert exit_code(judged.view) == 8
    git(judged.root, "checkout", "-q", "HEAD~1")
    assert exit_code(judged.view) == 0


def test_a_file_that_got_another_name_is_not_the_one_that_was_judged(judged, git, exit_code):
    git(judged.root, "mv", "train.py", "approved.py")
    assert exit_code(judged.view) == 8
    (judged.root / "train.py").write_text("x = 1\n")
    assert exit_code(judged.view) == 8


def test_a_certificate_under_the_name_of_another_is_found_by_its_view(judged, exit_code):
    other = judge(judged.root)
    judged.record.write_bytes(other.record.read_bytes())
    assert exit_code(judged.view) == 7
    assert exit_code(judged.id) == 7


def test_a_proof_of_another_certificate_proves_nothing(judged, exit_code):
    other = judge(judged.root)
    judged.proof.write_bytes(other.proof.read_bytes())
    assert exit_code(judged.view) == 7


def test_a_notice_on_another_certificate_ends_nothing(judged, exit_code):
    import asyncio

    from esper_agents.api import open_project

    other = judge(judged.root)

    async def revoke():
        async with open_project(judged.root) as project:
            await project.certificates.revoke(other.id, "wrong data")

    asyncio.run(revoke())
    (notice,) = other.view.parent.glob(f"{other.view.stem}.*.notice.json")
    shutil.copy(notice, judged.view.with_suffix(".1.notice.json"))
    assert exit_code(other.view) == 8
    assert exit_code(judged.view) == 0
