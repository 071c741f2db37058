"""Sessions that run from a snapshot on a machine without the project, as `esper worker` of another home and folder."""

from __future__ import annotations

import os

import pytest
from places import FAULTY, SOUND, Place, git, write

# Nothing was run.
ACCEPTED = "CONDITIONALLY_APPROVED"
AGENT = "pytorch-code-reviewer"
SUBMIT = ("submit", "--queue", "--json", "--agent", AGENT, "review this training code")
ENVIRONMENT = "API_TOKEN=very-secret-value\n"


@pytest.fixture
def here(tmp_path, postgresql_url, monkeypatch):
    """Return a project of two commits' worth of files with changes, on a shared database."""
    monkeypatch.setenv("ESPER_DATABASE_URL", postgresql_url.render_as_string(hide_password=False))
    root = tmp_path / "here" / "toy"
    files = {"train.py": SOUND, "model/layers.py": "LAYERS = 2\n", ".gitignore": "*.log\n", ".env": ENVIRONMENT}
    write(root, files)
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A", "-f")
    git(root, "commit", "-q", "-m", "first")
    write(root, {"model/extra.py": SOUND, "run.log": "log\n"})
    return Shared(Place(root, tmp_path / "home"), postgresql_url)


class Shared:
    """A place whose rows are in a shared database."""

    def __init__(self, place, url):
        self.place, self.url = place, url

    def esper(self, *words, **options):
        env = {"ESPER_DATABASE_URL": self.url.render_as_string(hide_password=False), **options.pop("env", {})}
        return self.place.esper(*words, env=env, **options)


@pytest.fixture
def there(here, tmp_path):
    """Return another machine: another home, and a folder that is no project."""
    folder = tmp_path / "there"
    folder.mkdir()
    return Shared(Place(folder, tmp_path / "other-home"), here.url)


def away(here):
    """Take the project away while another machine works."""
    return here.place.root.rename(here.place.root.with_name("moved"))


def enroll(here, there):
    public = there.place.home / "there.pub"
    public.write_text(there.esper("keys", "export", "--name", "there", code=0).stdout)
    here.esper("keys", "enroll", str(public), code=0)


@pytest.mark.slow
@pytest.mark.postgresql
def test_a_session_from_a_snapshot_gives_the_certificate_of_the_checkout_and_gate_counts_it(here, there):
    paths = ("train.py", "model")
    with_checkout = here.esper(*SUBMIT, *paths, code=0).json["session"]
    here.esper("worker", "--once", code=0)
    from_snapshot = here.esper(*SUBMIT, "--snapshot", *paths, code=0).json["session"]
    moved = away(here)
    out = there.esper("worker", "--once", code=0).stdout
    assert "ended " in out
    assert "skipped" not in out
    moved.rename(here.place.root)
    listed = {row["session"]: row for row in here.esper("certificates", "list", "--json", code=0).json}
    said = [statement(here, listed[name]["id"]) for name in (with_checkout, from_snapshot)]
    assert said[0] == said[1]
    assert said[0]["status"] == ACCEPTED
    assert {file["path"] for file in said[0]["examined"]} >= {"train.py", "model/layers.py", "model/extra.py"}
    assert said[0]["revision"]["commit"] == git(here.place.root, "rev-parse", "HEAD")
    enroll(here, there)
    here.esper("certificates", "verify", listed[from_snapshot]["id"], code=0)
    here.esper("certificates", "revoke", listed[with_checkout]["id"], "--reason", "only the other counts", code=0)
    here.esper("gate", *paths, "--require", ACCEPTED, code=0)
    assert not list(there.place.root.iterdir())


def statement(here, certificate):
    """Return the judged files, the verdict and the findings of a certificate."""
    shown = here.esper("certificates", "show", certificate, "--format", "json", code=0).json
    predicate = shown["predicate"]
    evidence = [
        {name: part[name] for name in ("tool", "arguments", "outcome", "output_sha256", "inputs") if name in part}
        for part in predicate["evidence"]
    ]
    return {
        "status": predicate["verdict"]["status"],
        "examined": [{"path": file["name"], **file["digest"]} for file in shown["subject"]],
        "revision": predicate["revision"],
        "summary": predicate["summary"],
        "findings": [finding["claim"] for finding in predicate["findings"]],
        "evidence": evidence,
    }


@pytest.mark.postgresql
def test_secrets_and_ignored_files_do_not_travel_and_cannot_be_named(here):
    for path in (".env", "run.log"):
        problem, _ = here.esper(*SUBMIT, "--snapshot", path).problem(2)
        assert path in problem


@pytest.mark.postgresql
def test_a_large_snapshot_needs_the_shared_folder(here, there, tmp_path):
    (here.place.root / "model" / "weights.bin").write_bytes(os.urandom(2 * 2**20))
    problem, fix = here.esper(*SUBMIT, "--snapshot", "train.py").problem(2)
    assert "the database takes 1" in problem
    assert "ESPER_ARTIFACT_FOLDER" in fix
    shared = tmp_path / "shared"
    shared.mkdir()
    env = {"ESPER_ARTIFACT_FOLDER": str(shared)}
    here.esper(*SUBMIT, "--snapshot", "train.py", env=env, code=0)
    moved = away(here)
    out = there.esper("worker", "--once", code=1).stdout
    assert "is not shared with this machine" in out
    moved.rename(here.place.root)
    here.esper(*SUBMIT, "--snapshot", "train.py", env=env, code=0)
    away(here)
    assert "ended " in there.esper("worker", "--once", env=env, code=0).stdout


@pytest.mark.postgresql
def test_a_forged_snapshot_fails_the_session_and_not_the_worker(here, there, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    env = {"ESPER_ARTIFACT_FOLDER": str(shared)}
    (here.place.root / "model" / "weights.bin").write_bytes(os.urandom(2 * 2**20))
    here.esper(*SUBMIT, "--snapshot", "train.py", env=env, code=0)
    (file,) = shared.iterdir()
    file.write_bytes(b"forged" + file.read_bytes())
    away(here)
    out = there.esper("worker", "--once", env=env, code=1).stdout
    assert "is corrupted in" in out
    assert "Traceback" not in out


@pytest.mark.postgresql
def test_a_session_without_a_snapshot_waits_for_the_machine_with_the_project(here, there):
    here.esper(*SUBMIT, "train.py", code=0)
    away(here)
    out = there.esper("worker", "--once", code=0).stdout
    assert "is not on this machine" in out
    assert "ended" not in out


def test_a_snapshot_is_for_queued_tasks_of_git_projects_and_not_for_changes(tmp_path):
    root = tmp_path / "toy"
    write(root, {"train.py": FAULTY})
    place = Place(root, tmp_path / "home")
    place.esper("submit", "--snapshot", "review this", "train.py").problem(2)
    problem, _ = place.esper("submit", "--queue", "--snapshot", "review this training code", "train.py").problem(2)
    assert "not a git work tree with a commit" in problem
    git(root, "init", "-q", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    write(root, {"train.py": SOUND})
    problem, _ = place.esper("submit", "--queue", "--snapshot", "--diff", "HEAD", "review this change").problem(2)
    assert "where its commits are" in problem


def test_a_session_of_a_snapshot_is_not_resumed_on_other_files(tmp_path):
    root = tmp_path / "toy"
    write(root, {"train.py": SOUND})
    git(root, "init", "-q", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    place = Place(root, tmp_path / "home")
    name = place.esper(*SUBMIT, "--snapshot", "train.py", code=0).json["session"]
    write(root, {"train.py": FAULTY})
    problem, fix = place.esper("resume", name).problem(2)
    assert "reads a snapshot" in problem
    assert "esper worker" in fix
    assert "APPROVED" in place.esper("worker", "--once", code=0).stdout
    assert place.esper("certificates", "verify", "latest").code == 8
    write(root, {"train.py": SOUND})
    place.esper("certificates", "verify", "latest", code=0)
    place.esper("gate", "train.py", "--require", ACCEPTED, code=0)
