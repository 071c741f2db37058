"""Checkouts of one repository at different paths: one archive after a confirmation, and never another's."""

from __future__ import annotations

import asyncio
import subprocess

import pytest
from judged import judge

from esper_agents.api import find_checkouts, join_checkout, open_project, verify_archive
from esper_agents.errors import UsageError
from esper_agents.git.find_project import find_project


def run(folder, *arguments):
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.fixture
def clone(judged_project, tmp_path):
    run(tmp_path, "clone", "-q", str(judged_project.root), str(tmp_path / "second"))
    run(tmp_path / "second", "remote", "remove", "origin")
    return tmp_path / "second"


def listed(root):
    async def certificates():
        async with open_project(root) as project:
            return [each.id for each in await project.certificates.list()]

    return asyncio.run(certificates())


def test_a_second_checkout_uses_the_archive_of_the_first_once_joined_and_extends_it(clone, judged_project):
    assert listed(clone) == []
    assert [each.root for each in find_checkouts(clone)] == [judged_project.root]
    found = join_checkout(judged_project.root, clone)
    assert (found.root, found.sessions, found.certificates) == (judged_project.root, 1, 1)
    assert listed(clone) == [judged_project.id]
    assert find_project([clone], clone).key == find_project([judged_project.root], clone).key
    own = judge(clone)
    assert listed(judged_project.root) == [own.id, judged_project.id]
    assert own.view.is_relative_to(clone)
    assert asyncio.run(verify_archive(judged_project.root)).faults == ()


def test_a_work_tree_is_a_checkout_as_well(judged_project, tmp_path):
    run(judged_project.root, "worktree", "add", "-q", str(tmp_path / "tree"))
    join_checkout(judged_project.root, tmp_path / "tree")
    assert listed(tmp_path / "tree") == [judged_project.id]


def test_another_repository_is_refused(judged_project, tmp_path):
    other = tmp_path / "other"
    run(tmp_path, "init", "-q", str(other))
    (other / "train.py").write_text("x = 1\n")
    run(other, "add", "-A")
    run(other, "commit", "-q", "-m", "another first commit")
    assert find_checkouts(other) == ()
    with pytest.raises(UsageError, match="not a checkout of the same repository"):
        join_checkout(judged_project.root, other)


def test_a_fork_with_another_remote_is_refused(clone, judged_project):
    run(judged_project.root, "remote", "add", "origin", "https://example.org/ann/model.git")
    run(clone, "remote", "add", "origin", "https://example.org/mallory/model.git")
    with pytest.raises(UsageError, match="remote differ"):
        join_checkout(judged_project.root, clone)
    run(clone, "remote", "set-url", "origin", "git@example.org:ann/model.git")
    assert join_checkout(judged_project.root, clone).certificates == 1


def test_a_checkout_with_sessions_of_its_own_keeps_them(clone, judged_project):
    judge(clone)
    with pytest.raises(UsageError, match="sessions of its own"):
        join_checkout(judged_project.root, clone)


def test_a_damaged_file_of_joined_checkouts_is_ignored(clone, judged_project, home):
    join_checkout(judged_project.root, clone)
    (file,) = (home / "checkouts").iterdir()
    file.write_text("../../escaped\n")
    assert find_project([clone], clone).key == file.name
