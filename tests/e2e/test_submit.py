"""`esper submit` and what follows it, the whole way, as a person goes it."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from places import FAULTY, SOUND, git, write

CLEARED = FAULTY.replace("        loss =", "        optimizer.zero_grad()\n        loss =")
# The gradients are cleared, the kept loss stays, and what is loaded may run code.
CHANGED = "import torch\n\n\ndef load(path):\n    return torch.load(path, weights_only=False)\n\n\n" + CLEARED


def said(output, label):
    """Return the texts that stand behind a label."""
    return [line.split(maxsplit=1)[1] for line in output.splitlines() if line.split(" ", 1)[0] == label]


def test_each_step_is_told_and_one_screen_ends_with_verdict_view_and_next_command(toy):
    _, done = toy
    assert done.code == 3
    assert not done.stderr
    told, screen = done.stdout.split("\n\n")
    labels = [line.split(" ", 1)[0] for line in told.splitlines() if not line.startswith(" ")]
    assert labels[:4] == ["route", "session", "agent", "tool"]
    assert labels.count("route") == 1
    assert "handoff" in labels
    assert labels[-2:] == ["verdict", "certified"]
    assert said(screen, "verdict") == ["REQUIRES_REMEDIATION for train"]
    assert said(screen, "answer") == ["No: 1 critical, 1 warning in 1 file (8 lines); no test ran."]
    (because,) = said(screen, "because")
    assert because.startswith("train.py:5  ESP101 ")
    assert said(screen, "also")[0].startswith("train.py:7  ESP301 ")
    (certified,) = said(told, "certified")
    assert said(screen, "next") == [f"esper submit --rerun {certified} # after fixing the findings"]
    assert "ESP101" not in told
    assert screen.count("ESP101") == 1


def test_views_are_published_in_the_project_and_do_not_make_it_dirty(toy, known):
    (view,) = map(Path, said(toy[1].stdout, "view"))
    assert view.parent == known.root / "docs/ai/agents/pytorch-code-reviewer/certificates"
    assert "REQUIRES_REMEDIATION" in view.read_text()
    assert view.with_suffix(".dsse.json").is_file()
    assert {path.name for path in view.parent.parent.glob("*.md")} == {
        "working-memory.md",
        "decisions-log.md",
        "next-actions.md",
    }
    git(known.root, "add", "-A", ":!docs")
    git(known.root, "commit", "-q", "--allow-empty", "-m", "all but the views")
    assert git(known.root, "status", "--porcelain") == "?? docs/"
    done = known.esper("submit", "review this training code", "sound.py", code=0)
    assert any("clean" in each for each in said(done.stdout, "tool") if each.startswith("git-state"))
    assert "remembers" in said(done.stdout, "agent")[0]
    assert "APPROVED for sound" in said(done.stdout, "verdict")[-1]


@pytest.mark.slow
def test_json_is_all_there_is_on_standard_output(known):
    done = known.esper("submit", "--json", "review this training code", "train.py", code=3)
    assert not done.stderr
    assert done.json["exit_code"] == 3
    assert done.json["state"] == "done"
    assert done.json["certificate"]["status"] == "REQUIRES_REMEDIATION"
    assert {each["claim"]["rule"] for each in done.json["findings"]} == {"ESP101", "ESP301"}
    assert Path(done.json["view"]).is_file()
    answer = done.json["answer"]
    assert answer["because"][0]["place"] == "train.py:5"
    assert answer["next_command"].startswith("esper submit --rerun crt_")


def test_a_plan_says_what_would_happen_and_runs_nothing(known):
    before = known.kept()
    done = known.esper("submit", "--dry-run", "review this training code", "train.py", code=0)
    assert said(done.stdout, "route")[0].startswith("pytorch-code-reviewer")
    assert any(each.startswith("run-tests (risk medium, asks you first)") for each in said(done.stdout, "tool"))
    assert said(done.stdout, "plan") == ["nothing was run"]
    planned = known.esper("submit", "--dry-run", "--json", "review this training code", "train.py", code=0).json
    assert planned["route"]["agent"] == "pytorch-code-reviewer"
    assert known.kept() == before


def test_asking_again_after_mending_says_what_is_gone_new_and_still_there(place):
    made = place({"train.py": FAULTY})
    first = said(made.esper("submit", "review this training code", "train.py", code=3).stdout, "certified")[0]
    write(made.root, {"train.py": CHANGED})
    done = made.esper("submit", "--rerun", "latest")
    (again,) = said(done.stdout, "again")
    assert again.startswith(f"REQUIRES_REMEDIATION before ({first}),")
    assert said(done.stdout, "gone") == ["ESP101 train.py:5"]
    assert [each.split(" ")[1] for each in said(done.stdout, "new")] == ["train.py:5"]
    assert said(done.stdout, "still") == ["ESP301 train.py:15"]
    assert ["seen", "nothing"] in [each.split() for each in said(done.stdout, "not")]
    assert re.search(r"remembers \d+ things", said(done.stdout, "agent")[0])
    record = made.esper("certificates", "show", "latest", "--json", code=0).json
    assert first in json.dumps(record)


@pytest.mark.slow
def test_views_can_be_kept_out_of_the_project(place):
    made = place({"train.py": SOUND})
    done = made.esper("submit", "--publish", "data", "review this training code", "train.py", code=0)
    (view,) = map(Path, said(done.stdout, "view"))
    assert view.is_file()
    assert view.is_relative_to(made.home)
    assert not git(made.root, "status", "--porcelain", "--ignored")


class _Listener(BaseHTTPRequestHandler):
    heard: ClassVar = []

    def do_any(self):
        self.heard.append(self.path)
        self.send_error(404)

    do_GET = do_POST = do_any  # noqa: N815 - what the base class calls


@pytest.mark.slow
def test_nothing_is_sent_anywhere_even_where_tracing_is_switched_on(known):
    with HTTPServer(("127.0.0.1", 0), _Listener) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        traced = {"TRACING_V2": "true", "ENDPOINT": address, "API_KEY": "none"}
        names = {f"{who}_{name}": text for who in ("LANGSMITH", "LANGCHAIN") for name, text in traced.items()}
        names["LANGSMITH_TRACING"] = "true"
        done = known.esper("submit", "review this training code", "sound.py", env=names, code=0)
        server.shutdown()
    assert not done.stderr
    assert _Listener.heard == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("files", [{"docs": "a file, where views would go\n"}, None])
def test_views_go_to_the_data_folder_where_the_project_has_no_place_for_them(place, files):
    made = place({"train.py": SOUND, **(files or {})}, under_git=files is not None)
    done = made.esper("submit", "review this training code", "train.py", code=0)
    (view,) = map(Path, said(done.stdout, "view"))
    assert view.is_relative_to(made.home)
    assert sorted(path.name for path in made.root.iterdir() if path.name != ".git") == sorted(
        ["train.py", *(files or [])]
    )


def test_without_a_terminal_leave_to_run_code_is_waited_for(waiting):
    _, done = waiting
    assert done.code == 9
    assert not done.stderr
    question = said(done.stdout, "next")[0].removeprefix("esper approve ")
    assert said(done.stdout, "or") == [f"esper deny {question}"]
    assert said(done.stdout, "waiting") == ["for a person"]
    assert "risk medium" in done.stdout


def test_a_denied_call_is_never_run_and_a_second_answer_is_refused(waiting, slow):
    question = said(waiting[1].stdout, "next")[0].removeprefix("esper approve ")
    done = slow.place.esper("deny", question, env={"SLOW_AT": slow.folder})
    assert done.code in {0, 4}
    assert "deny by" in said(done.stdout, "answer")[0]
    problem, _ = slow.place.esper("approve", question, env={"SLOW_AT": slow.folder}).problem(2)
    assert "answered" in problem
    assert slow.ran == 0


def test_an_approved_call_runs_once_and_the_session_goes_on_to_its_certificate(slow):
    slow.go()
    done = slow.place.esper("approve", "--json", env={"SLOW_AT": slow.folder}, code=0)
    # The test passes, and executes no line of what was asked about.
    assert done.json["certificate"]["status"] == "CONDITIONALLY_APPROVED"
    assert slow.ran == 1
    shown = slow.place.esper("sessions", "show", code=0).stdout
    assert any("1 passed" in each for each in said(shown, "tool"))
    assert slow.place.esper("sessions", "list", "--json", code=0).json[0]["state"] == "done"


def test_a_cancelled_session_ends_without_a_verdict(slow):
    slow.place.esper("sessions", "cancel", "latest", code=0)
    assert slow.place.rows("SELECT state, certificate_id FROM session") == [("cancelled", "")]
    problem, _ = slow.place.esper("sessions", "cancel", "latest").problem(2)
    assert "cancelled" in problem
    assert "done" not in slow.place.esper("resume", code=10).stdout


def test_a_trace_from_standard_input_is_answered_and_repeated_by_its_session(place):
    made = place({"net.py": "import torch\n\nw = torch.ones(3, requires_grad=True)\nloss = w * 2\nloss.backward()\n"})
    trace = (
        'Traceback (most recent call last):\n  File "/srv/net.py", line 5, in <module>\n    loss.backward()\n'
        "RuntimeError: grad can be implicitly created only for scalar outputs\n"
    )
    (made.root / "crash.log").write_text(trace * 3)
    with (made.root / "crash.log").open() as log:
        done = made.esper("submit", "-", stdin=log, code=0)
    assert "net.py:5 calls backward on a tensor with several elements" in " ".join(done.stdout.split())
    assert "Traceback" not in "".join(said(done.stdout, "next"))
    (session,) = said(done.stdout, "session")
    (certificate,) = said(done.stdout, "certified")
    shown = made.esper("certificates", "show", certificate, code=0).stdout
    assert f"esper explain --session {session}" in shown
    assert "net.py:5" in made.esper("explain", "--session", session, code=0).stdout
