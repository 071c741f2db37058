"""What an agent loads is evidence, and what it had at hand stands on the certificate."""

from __future__ import annotations

from hashlib import sha256

import pytest
from toys import calls

from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.evidence import CallOutcome
from esper_agents.paths import data_folder

pytestmark = pytest.mark.anyio

OURS = data_folder("prompts") / "skills/using-training-optimization"


def digest(file):
    return sha256(file.read_bytes()).hexdigest()


async def test_what_was_at_hand_and_what_was_loaded_is_on_the_certificate_with_its_digest(toybox):
    own = toybox.project / ".claude/skills/cranks/SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nname: cranks\ndescription: Turning cranks.\n---\nTurn left.\n")

    def play(_brief):
        sheet = yield calls("load-skill", name="using-training-optimization", sheet="gradient-management")
        mine = yield calls("load-skill", name="cranks")
        lost = yield calls("load-skill", name="crnks")
        return Conclude("; ".join(each.evidence.summary for (each,) in (sheet, mine, lost)))

    toybox.agent("worker", play, extra="skills: [using-training-optimization, cranks]\n")
    certificate = (await toybox.run("worker")).certificate
    (definition,) = certificate.definitions
    assert [(skill.name, skill.sha256) for skill in definition.skills] == [
        ("cranks", digest(own)),
        ("using-training-optimization", digest(OURS / "SKILL.md")),
    ]
    sheet, mine, lost = certificate.evidence
    assert sheet.output["path"] == "esper-agents/skills/using-training-optimization/gradient-management.md"
    assert sheet.output["sha256"] == digest(OURS / "gradient-management.md")
    assert mine.output["text"] == "Turn left."
    assert (mine.output["skill"], mine.output["sha256"]) == ("project:cranks", digest(own))
    assert lost.outcome is CallOutcome.FAILED
    assert lost.output["remedy"] == "did you mean 'project:cranks'?"
