"""Companion changes that skills declare in their front matter."""

from __future__ import annotations

import pytest

from esper_agents.agents.companions import Declared, declared_companions
from esper_agents.review.companion import matches, missing_companion_changes

SKILL = """---
name: dynamo-state
description: Adds state functions.
companions:
  - when: "torch/_dynamo/eval_frame.py"
    then: ["torch/_dynamo/trace_rules.py", "torch/_dynamo/variables/*.py"]
    why: a state function that is not registered breaks the graph
---
Add it in all three places.
"""


def declared(root):
    """Return what the project's own skills declare."""
    found = declared_companions(root)
    return Declared(
        tuple(companion for companion in found.companions if companion.declared.startswith(".")), found.unreadable
    )


@pytest.fixture
def skill(tmp_path):
    def write(text, name="dynamo", folder=".esper/skills"):
        file = tmp_path / folder / name / "SKILL.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return tmp_path

    return write


def test_a_skill_declares_when_then_and_why(skill):
    (companion,) = declared(skill(SKILL)).companions
    assert companion.when == ("torch/_dynamo/eval_frame.py",)
    assert companion.then == ("torch/_dynamo/trace_rules.py", "torch/_dynamo/variables/*.py")
    assert companion.why == "a state function that is not registered breaks the graph"
    assert companion.declared == ".esper/skills/dynamo/SKILL.md"


def test_skills_of_claude_code_are_read_as_well(skill):
    assert len(declared(skill(SKILL, folder=".claude/skills")).companions) == 1


def test_a_skill_without_companions_declares_nothing(skill):
    found = declared(skill("---\nname: a\ndescription: b\n---\nSpeaks of companions.\n"))
    assert (found.companions, found.unreadable) == ((), ())


@pytest.mark.parametrize(
    "companions",
    ["later", "[{when: a.py}]", "[{when: /etc/passwd, then: b.py}]", "[{when: a.py, then: b.py, run: rm}]", "[a.py]"],
)
def test_what_cannot_be_understood_is_said_and_the_others_count(skill, companions):
    skill(SKILL, name="good")
    found = declared(skill(f"---\nname: a\ndescription: b\ncompanions: {companions}\n---\nText.\n"))
    assert len(found.companions) == 1
    (unread,) = found.unreadable
    assert unread.path == ".esper/skills/dynamo/SKILL.md"
    assert unread.line == 4
    assert unread.remedy


def test_a_skill_that_is_a_link_out_of_the_project_is_not_read(skill, tmp_path_factory):
    root = skill(SKILL, name="good")
    outside = tmp_path_factory.mktemp("outside") / "SKILL.md"
    outside.write_text(SKILL)
    (root / ".esper/skills/linked").mkdir()
    (root / ".esper/skills/linked/SKILL.md").symlink_to(outside)
    assert len(declared(root).companions) == 1


def test_ours_are_for_the_source_of_torch_alone(tmp_path):
    found = declared_companions(tmp_path)
    assert found.unreadable == ()
    assert len(found.companions) == 5
    for path in ("train.py", "src/model.py", "tests/test_model.py", "model/torch_ops/module.cpp"):
        assert not any(matches(path, companion.when) for companion in found.companions)
    (claim,) = missing_companion_changes(found.companions, ["torch/csrc/xpu/Module.cpp", "test/test_xpu.py"])
    assert "torch/_C/__init__.pyi.in" in claim.message
    assert claim.basis == "declared in esper-agents/skills/pytorch-platform-parity/SKILL.md"
