"""Snapshots of real git projects, restored as another machine does."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
from places import FAULTY, SOUND, git, write

from esper_agents.errors import IntegrityError, UsageError
from esper_agents.file_bundle import BundledFile, pack_files, unpack_files
from esper_agents.git.project_state import revision
from esper_agents.tools.project_snapshot import restore_snapshot, take_snapshot

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n"
COMMITTED = {
    "train.py": SOUND,
    "model/layers.py": "LAYERS = 2\n",
    "run.sh": "#!/bin/sh\n",
    "gone.py": "GONE = 1\n",
    "unstaged.py": "KEPT = 1\n",
    ".env": "API_TOKEN=very-secret-value\n",
    "deploy.txt": KEY,
    ".gitignore": "*.log\ndata/\n",
    "crlf.txt": b"one\r\ntwo\r\n",
    ".gitattributes": "*.txt text eol=lf\n*.py filter=evil\n",
}


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "toy"
    write(root, COMMITTED)
    (root / "run.sh").chmod(0o755)
    (root / "link.py").symlink_to("model/layers.py")
    (root / "model/up.py").symlink_to("../train.py")
    (root / "outside").symlink_to("/etc/passwd")
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    git(root, "commit", "-q", "--allow-empty", "-m", "second")
    return root


def changed(root):
    write(root, {"train.py": FAULTY, "new.py": "NEW = 1\n", "staged/new.py": "STAGED = 1\n"})
    write(root, {"run.log": "log\n", "data/values.bin": b"\0" * 1000, "id_rsa": KEY, "notes.txt": KEY})
    (root / "gone.py").unlink()
    git(root, "add", "staged/new.py")
    git(root, "rm", "-q", "--cached", "unstaged.py")


def restored(root, tmp_path, name="there"):
    there = tmp_path / name
    restore_snapshot(take_snapshot(root).data, there)
    return there


def digests(root, without=()):
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts and path.name not in without
    }


NEVER = {".env", "deploy.txt", "run.log", "values.bin", "id_rsa", "notes.txt"}


@pytest.mark.parametrize("change", [lambda _: None, changed], ids=["clean", "changed"])
def test_a_restored_project_has_the_same_files_commit_and_changes(project, tmp_path, change):
    change(project)
    there = restored(project, tmp_path)
    assert digests(there) == digests(project, NEVER)
    here, other = revision(project), revision(there)
    assert (other.commit, other.tree, other.branch) == (here.commit, here.tree, here.branch)
    assert set(other.dirty) == set(here.dirty) - NEVER
    assert os.access(there / "run.sh", os.X_OK)
    assert git(there, "show", "HEAD:gone.py") == "GONE = 1"
    assert git(there, "diff", "--name-only", "HEAD") == git(project, "diff", "--name-only", "HEAD")


def test_secrets_and_ignored_files_are_nowhere_in_a_snapshot(project, tmp_path):
    changed(project)
    snapshot = take_snapshot(project)
    assert set(snapshot.withheld) == {".env", "deploy.txt", "id_rsa", "notes.txt"}
    files, facts = unpack_files(snapshot.data, 10**9)
    everything = b"\n".join([*(file.content for file in files), *(file.path.encode() for file in files)])
    for secret in (b"very-secret-value", b"OPENSSH PRIVATE KEY", b"run.log", b"values.bin"):
        assert secret not in everything + json.dumps(facts).encode()


def test_links_stay_inside_the_folder(project, tmp_path):
    there = restored(project, tmp_path)
    assert (there / "link.py").read_text() == "LAYERS = 2\n"
    assert (there / "model/up.py").read_text() == SOUND
    assert not os.path.lexists(there / "outside")


def test_a_folder_that_became_a_link_is_not_followed(project, tmp_path):
    outside = tmp_path / "outside"
    write(outside, {"layers.py": "OTHER = 'of somebody else'\n"})
    (project / "model/layers.py").unlink()
    (project / "model/up.py").unlink()
    (project / "model").rmdir()
    (project / "model").symlink_to(outside)
    snapshot = take_snapshot(project)
    assert b"of somebody else" not in b"".join(file.content for file in unpack_files(snapshot.data, 10**9)[0])


def test_no_filter_or_hook_of_the_project_runs(project, tmp_path, monkeypatch):
    config = tmp_path / "gitconfig"
    config.write_text(
        f'[filter "evil"]\n\tclean = touch {tmp_path}/ran && cat\n\tsmudge = touch {tmp_path}/ran && cat\n'
    )
    (project / ".git/hooks").mkdir()
    (project / ".git/hooks/post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (project / ".git/hooks/post-checkout").chmod(0o755)
    git(project, "config", "filter.evil.smudge", f"touch {tmp_path}/ran && cat")
    changed(project)
    data = take_snapshot(project).data
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    restore_snapshot(data, tmp_path / "there")
    assert "filter" not in (tmp_path / "there/.git/config").read_text()
    assert not (tmp_path / "ran").exists()


def test_a_snapshot_is_bounded_in_size(project):
    (project / "large.bin").write_bytes(os.urandom(2**20))
    with pytest.raises(UsageError, match="over 0 MiB"):
        take_snapshot(project, 2**19)
    git(project, "add", "large.bin")
    git(project, "commit", "-q", "-m", "large")
    (project / "large.bin").unlink()
    with pytest.raises(UsageError, match="over 0 MiB"):
        take_snapshot(project, 2**19)


def test_a_folder_without_a_commit_is_refused(tmp_path):
    with pytest.raises(UsageError, match="not a git work tree with a commit"):
        take_snapshot(tmp_path)
    git(tmp_path, "init", "-q", "--template=")
    with pytest.raises(UsageError, match="not a git work tree with a commit"):
        take_snapshot(tmp_path)


def test_a_name_that_is_not_utf8_travels(project, tmp_path):
    name = os.fsdecode(b"\xe9.py")
    (project / name).write_text("x = 1\n")
    assert (restored(project, tmp_path) / name).read_text() == "x = 1\n"


def changed_bundle(data, change):
    files, facts = unpack_files(data, 10**9)
    files, facts = change(list(files), dict(facts))
    return pack_files(files, facts)


def without_tree(files, facts):
    return [file for file in files if not file.content.startswith(b"tree ")], facts


def forged_object(files, facts):
    (number,) = [number for number, file in enumerate(files) if file.content.startswith(b"commit ")]
    files[number] = BundledFile(files[number].path, files[number].content + b"more")
    return files, facts


ATTACKS = {
    "object": forged_object,
    "tree": without_tree,
    "path": lambda files, facts: ([*files, BundledFile("tree/../../evil", b"")], facts),
    "git": lambda files, facts: ([*files, BundledFile("tree/.git/hooks/post-checkout", b"")], facts),
    "link": lambda files, facts: (files, {**facts, "links": json.dumps({"../evil": "train.py"})}),
    "link over file": lambda files, facts: (files, {**facts, "links": json.dumps({"train.py": "run.sh"})}),
    "links": lambda files, facts: (files, {**facts, "links": "{"}),
    "list": lambda files, facts: (files, {**facts, "added": "[1]"}),
    "option": lambda files, facts: (files, {**facts, "commit": "--upload-pack=touch"}),
    "format": lambda files, facts: (files, {**facts, "format": "sha256"}),
    "commit": lambda files, facts: (files, {**facts, "commit": "0" * 40}),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_forged_snapshot_is_refused_and_writes_nothing_outside(project, tmp_path, attack):
    data = changed_bundle(take_snapshot(project).data, attack)
    inside = tmp_path / "private"
    inside.mkdir()
    with pytest.raises(IntegrityError):
        restore_snapshot(data, inside / "there")
    assert [path.name for path in inside.iterdir()] == ["there"] or not list(inside.iterdir())
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../x", "..", "model/../../x", "link.py/../../x", ".git/config", "a\0b"]
)
def test_a_link_of_a_forged_snapshot_that_leads_out_is_left_out(project, tmp_path, target):
    links = json.dumps({"planted": target})
    data = changed_bundle(take_snapshot(project).data, lambda files, facts: (files, {**facts, "links": links}))
    there = tmp_path / "there"
    restore_snapshot(data, there)
    assert not os.path.lexists(there / "planted")
