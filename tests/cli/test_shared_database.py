"""The commands with all rows in a PostgreSQL database that two projects share."""

from __future__ import annotations

import pytest
from places import FAULTY, SOUND, Place, git, write

pytestmark = pytest.mark.postgresql


@pytest.fixture
def project(tmp_path, postgresql_url):
    """Return what makes a project, and what runs the command in it."""
    env = {"ESPER_DATABASE_URL": postgresql_url.render_as_string(hide_password=False)}

    def make(name, text):
        root = tmp_path / name
        write(root, {"train.py": text})
        git(root, "init", "-q", "-b", "main", "--template=")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "first")
        place = Place(root, tmp_path / "home")
        return root, lambda *arguments, **options: place.esper(*arguments, env=env, **options)

    return make


@pytest.mark.slow
def test_what_a_project_does_works_in_a_shared_database(project, tmp_path):
    root, esper = project("mine", FAULTY)
    esper("submit", "review this training code", "train.py", code=3)
    (session,) = esper("sessions", "list", "--json", code=0).json
    assert session["state"] == "done"
    certificate = session["certificate"]
    assert [each["id"] for each in esper("sessions", "search", "training", "--json", code=0).json] == [session["id"]]
    esper("sessions", "show", code=0)
    esper("sessions", "replay", code=0)
    esper("certificates", "verify", certificate, code=0)
    assert "train.py" in esper("certificates", "search", "gradients", code=0).stdout
    esper("certificates", "list", code=0)
    esper("memory", "show", code=0)
    esper("certificates", "verify", "--all", code=0)
    next(root.rglob("code_review_*.md")).unlink()
    esper("certificates", "repair", code=0)
    esper("certificates", "verify", certificate, code=0)
    esper("gate", code=3)
    esper("certificates", "revoke", certificate, "--reason", "the data was mislabelled", code=0)
    esper("certificates", "verify", certificate, code=8)
    assert "revoked" in esper("certificates", "verify", "--all", code=0).stdout
    assert "revoked: the data was mislabelled" in esper("certificates", "list", code=0).stdout


def test_projects_that_share_a_database_do_not_see_one_another(project):
    _, mine = project("mine", SOUND)
    _, other = project("other", SOUND)
    mine("submit", "--queue", "review this training code", "train.py", code=0)
    queued = other("submit", "--queue", "--json", "review this training code", "train.py", code=0).json["session"]
    assert len(mine("sessions", "list", "--json", code=0).json) == 1
    problem, remedy = mine("sessions", "show", queued).problem(2)
    assert "belongs to the project" in problem
    assert "--project" in remedy
    assert mine("worker", "--once", "--poll", "0.1", "--project", ".", code=0).stdout.count("ended") == 1
    assert [each["state"] for each in other("sessions", "list", "--json", code=0).json] == ["open"]
    assert mine("worker", "--once", "--poll", "0.1", code=0).stdout.count("ended") == 1
    (done,) = other("sessions", "list", "--json", code=0).json
    assert done["state"] == "done"
    other("certificates", "verify", done["certificate"], code=0)
