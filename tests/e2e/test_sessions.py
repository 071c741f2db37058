"""Sessions as people handle them: found, watched from elsewhere, continued, forked, replayed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing

import pytest

from esper_agents.api import open_project
from esper_agents.domain.agent_action import Conclude

RELATED = (
    "SELECT certificate.id, certificate_relation.kind, other FROM certificate_relation"
    " JOIN certificate ON certificate.position = certificate_relation.position"
)
EVIDENCE = "SELECT session_id, json_extract(body, '$.evidence.id') FROM ledger WHERE kind = 'called'"


def said(text, label):
    """Return what stands behind a label."""
    return [line[len(label) :].strip() for line in text.splitlines() if line.startswith(f"{label} ")]


def test_sessions_are_listed_and_found_by_what_was_asked(known):
    (found,) = known.esper("sessions", "list", "--json", code=0).json
    assert found["origin"] == {"kind": "submitted", "session": ""}
    for narrowed, count in (
        (("--state", "done"), 1),
        (("--state", "waiting", "--state", "open"), 0),
        (("--since", "2020-01-31"), 1),
        (("--since", "2999"), 0),
        (("--agent", found["agent"]), 1),
    ):
        assert len(known.esper("sessions", "list", "--json", *narrowed, code=0).json) == count
    assert known.esper("sessions", "list", code=0).stdout.startswith(f"{found['id']} ")
    assert known.esper("sessions", "search", "Training", "code", "--json", code=0).json == [found]
    assert "no session says that" in known.esper("sessions", "search", "elephant", code=0).stdout
    problem, _ = known.esper("sessions", "search", "...").problem(2)
    assert "no search terms in" in problem
    problem, _ = known.esper("sessions", "list", "--since", "yesterday").problem(2)
    assert "yesterday" in problem


def test_a_session_is_continued_forked_and_replayed(known):
    (first,) = known.esper("sessions", "list", "--json", code=0).json
    replayed = known.esper("sessions", "replay", code=0)
    assert "as it was issued, byte by byte" in replayed.stdout
    again = known.esper("sessions", "continue", "latest", "review the training loop once more", "--json", code=3).json
    assert again["certificate"]["id"] != first["certificate"]
    assert known.rows(RELATED) == [(again["certificate"]["id"], "supersedes", first["certificate"])]
    fork = known.esper("sessions", "fork", first["id"], "--from-step", "1.1", "--json", code=3).json
    assert len({first["id"], again["session"], fork["session"]}) == 3
    origins = {each["id"]: each["origin"] for each in known.esper("sessions", "list", "--json", code=0).json}
    assert origins[fork["session"]] == {"kind": "forked", "session": first["id"]}
    assert origins[again["session"]] == {"kind": "continued", "session": first["id"]}
    # The step before the fork was copied and not done again.
    done = {each: set() for each in (first["id"], fork["session"])}
    for session, evidence in known.rows(EVIDENCE):
        done.get(session, set()).add(evidence)
    assert done[first["id"]] & done[fork["session"]]
    assert done[fork["session"]] - done[first["id"]]
    assert known.esper("sessions", "replay", fork["session"], "--json", code=0).json["is_identical"]
    problem, remedy = known.esper("sessions", "fork", first["id"], "--from-step", "99").problem(2)
    assert "is not a step" in problem
    assert "1.1 to " in remedy


@pytest.mark.slow
def test_a_session_is_watched_from_another_process_until_it_ends(slow):
    running = slow.start("approve", "latest")
    watching = slow.place.start("sessions", "attach", "latest")
    for line in watching.stdout:
        if "approve by" in line:
            break
    detached = slow.place.start("sessions", "tail", "--follow", "latest")
    for line in detached.stdout:
        if line.startswith("answer"):
            break
    os.killpg(detached.pid, signal.SIGINT)
    out, err = detached.communicate(timeout=60)
    assert (detached.returncode, err) == (0, "")
    assert "it goes on" in out
    assert running.poll() is None
    slow.go()
    running.communicate(timeout=60)
    out, err = watching.communicate(timeout=60)
    assert (watching.returncode, err) == (running.returncode, "") == (0, "")
    assert said(out, "certified")
    assert said(out, "state") == ["done"]


def test_a_session_that_nobody_runs_is_not_waited_for(slow):
    done = slow.place.esper("sessions", "attach", code=9)
    assert said(done.stdout, "state") == ["waiting for you"]
    assert len(slow.place.esper("sessions", "tail", "-n", "2", code=0).stdout.splitlines()) <= 8


@pytest.mark.anyio
async def test_an_agent_that_has_changed_is_shown_and_a_person_says_what_counts(place, monkeypatch):
    made = place({"train.py": "def train():\n    return 1\n", ".esper/agents/watcher.md": AGENT})
    monkeypatch.setenv("ESPER_HOME", str(made.home))
    async with open_project(made.root, playbooks={"project:watcher": _watch}) as project:
        task = project.tasks.create("review this", [made.root / "train.py"], agent="project:watcher")
        await (await project.tasks.submit(task)).run()
    with closing(sqlite3.connect(made.database)) as connection, connection:
        # As it stands where the process was killed before it concluded.
        connection.execute("DELETE FROM log_entry")
        connection.execute("DELETE FROM ledger WHERE kind IN ('certified', 'concluded')")
        connection.execute("UPDATE session SET state = 'open', certificate_id = ''")
    (made.root / ".esper/agents/watcher.md").write_text(AGENT.replace("Watch.", "Watch twice."))
    done = made.esper("resume")
    problem, remedy = done.problem(2)
    assert problem.startswith("definitions changed since session ")
    assert "agent project:watcher" in problem
    assert "--definitions current" in remedy
    assert "  -Watch." in done.stdout
    assert "  +Watch twice." in done.stdout
    (made.root / ".esper/agents/watcher.md").unlink()
    problem, remedy = made.esper("resume", "--definitions", "current").problem(2)
    assert "is no longer installed" in problem
    assert "--definitions recorded" in remedy


def _watch(_brief):
    return Conclude("watched")
    yield


AGENT = "---\nname: watcher\ndescription: Watches. Use for watching.\n---\nWatch.\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", ["show", "cancel", "tail", "attach", "replay"])
def test_a_session_of_another_project_or_a_name_that_fits_several_is_refused(known, command):
    ((session,),) = known.rows("SELECT id FROM session")
    twin = session[:-1] + ("0" if session[-1] != "0" else "1")
    with closing(sqlite3.connect(known.database)) as connection, connection:
        connection.execute("INSERT INTO project SELECT 'other', '/elsewhere', 'other', opened_at, 0 FROM project")
        columns = [each[1] for each in connection.execute("PRAGMA table_info(session)")]
        for name, key in ((twin, "project_key"), (session[:-4] + "beef", "'other'")):
            values = ", ".join({"id": f"'{name}'", "project_key": key}.get(column, column) for column in columns)
            connection.execute(f"INSERT INTO session SELECT {values} FROM session WHERE id = ?", (session,))  # noqa: S608
    problem, remedy = known.esper("sessions", command, session[:20]).problem(2)
    assert "matches 2 sessions" in problem
    assert session in remedy
    problem, remedy = known.esper("sessions", command, session[:-4] + "beef").problem(2)
    assert "belongs to the project in '/elsewhere'" in problem
    assert remedy == "use --project /elsewhere"


def test_a_database_of_a_newer_version_is_left_alone(known):
    with closing(sqlite3.connect(known.database)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for command in (("list",), ("search", "review"), ("show",), ("replay",), ("tail",)):
        problem, remedy = known.esper("sessions", *command).problem(1)
        assert "9999" in problem
        assert remedy == "pip install --upgrade esper-agents"


@pytest.mark.slow
def test_what_is_printed_as_json_is_nothing_but_json(known):
    for command in (("show",), ("replay",), ("list",), ("search", "review")):
        json.loads(known.esper("sessions", *command, "--json", code=0).stdout)
