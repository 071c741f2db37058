"""Questions that outlive the process that asked them, answered from others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import FAULTY, PATIENCE_S, environment, write

ADVISER = """
import asyncio, sys
from pathlib import Path
from esper_agents.api import Conclude, ToolCall, UseTools, open_project
from esper_agents.domain.agent_action import RiskAssessment

def advise(brief):
    yield UseTools((ToolCall("read-file", {"path": "train.py"}),))
    return Conclude("clear the gradients", risks=RiskAssessment("High", "Easy"))

async def main(what):
    here = Path(__file__).parent
    async with open_project(sys.argv[2], playbooks={"adviser": advise}, agents=[here / "adviser.md"]) as project:
        if what == "submit":
            task = project.tasks.create("why does it not learn?", ["train.py"], agent="adviser")
            session = await project.tasks.submit(task)
        else:
            session = await project.tasks.resume("latest")
        outcome = await session.run()
        print(outcome.state, int(outcome.exit_code))

asyncio.run(main(sys.argv[1]))
"""
AGENT = "---\nname: adviser\ndescription: Advises. Use for advice.\n---\nYou advise.\n"


def test_a_question_is_answered_days_later_by_the_command_that_the_listing_shows(waiting, slow):
    listed = slow.place.esper("approvals", "list", code=0).stdout
    shown = re.findall(r"answer: esper (deny qst_[0-9a-f]+)$", listed, re.MULTILINE)
    assert len(shown) == 1
    slow.place.esper(*shown[0].split(), code=0)
    assert slow.ran == 0
    problem, _ = slow.place.esper(*shown[0].replace("deny", "approve").split()).problem(2)
    assert "is already answered: 'deny'" in problem


@pytest.mark.slow
@pytest.mark.parametrize("answers", [("approve", "deny"), ("deny", "deny")])
def test_of_answers_that_several_processes_give_at_once_one_counts_and_the_others_are_refused_aloud(slow, answers):
    (asked,) = slow.place.esper("approvals", "list", "--json", code=0).json
    slow.go()
    env = {"SLOW_AT": slow.folder}
    started = [slow.place.start("approvals", answer, asked["id"], env=env) for answer in answers]
    ended = [(process, *process.communicate(timeout=PATIENCE_S)) for process in started]
    refused = [(process.returncode, stderr) for process, _, stderr in ended if stderr]
    assert len(refused) == 1, ended
    assert refused[0][0] in {2, 75}
    assert refused[0][1].startswith("esper: ")
    kept = slow.place.rows("SELECT body FROM ledger WHERE kind = 'answered'")
    assert len(kept) == 1
    assert slow.ran == ('"text":"approve"' in kept[0][0])


@pytest.mark.slow
def test_advice_waits_until_a_person_agrees_in_another_process_and_goes_on_in_a_third(place, tmp_path):
    made = place({"train.py": FAULTY})
    write(tmp_path, {"adviser.py": ADVISER, "adviser.md": AGENT})

    def advise(what):
        command = [sys.executable, Path(tmp_path, "adviser.py"), what, made.root]
        env = environment(made.home)
        done = subprocess.check_output(command, cwd=made.root, env=env, text=True, timeout=PATIENCE_S)
        return done.strip()

    assert advise("submit") == "waiting 9"
    assert advise("resume") == "waiting 9"
    (asked,) = made.esper("approvals", "list", "--json", code=0).json
    assert asked["agent"] == "adviser"
    assert "Implementation risk High" in asked["text"]
    # This process does not know the playbook: it records the answer and leaves the rest to one that does.
    answered = made.esper("approvals", "approve", asked["id"])
    assert answered.code != 0
    assert "changed since session" in answered.stderr
    assert made.esper("approvals", "list", code=0).stdout == "nothing waits for you\n"
    assert "already answered" in made.esper("approvals", "deny", asked["id"]).problem(2)[0]
    assert advise("resume") == "done 0"
    record = made.esper("certificates", "show", "latest", "--json", code=0).json
    predicate = record.get("predicate", record)
    assert [(each["is_given"], each["question"]) for each in predicate["agreements"]] == [(True, asked["id"])]
    made.esper("certificates", "verify", "latest", code=0)
