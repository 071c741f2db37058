from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.tools.check_draft import check_draft
from esper_agents.tools.draft_patch import draft_patch
from tests.tools.evidence_samples import evidence_with

pytestmark = pytest.mark.anyio

LOSS = "def mean(values):\n    return sum(values) / (len(values) - 1)\n"
TEST = "from loss import mean\n\n\ndef test_mean():\n    assert mean([2, 4]) == 3\n"
FIX = [{"path": "loss.py", "old": "(len(values) - 1)", "new": "len(values)"}]


@pytest.fixture
def faulty(project):
    (project / "loss.py").write_text(LOSS)
    (project / "test_loss.py").write_text(TEST)
    return project


@pytest.fixture
def draft(context, faulty):
    """Draft a patch, and return its result with a context in which it is evidence."""

    async def run(edits, base="", known=()):
        result = await draft_patch.run(_with(context, known), {"edits": edits, **({"base": base} if base else {})})
        made = evidence_with(result, "draft-patch", f"ev_{len(known) + 1:032d}")
        return result, _with(context, (*known, made)), (*known, made)

    return run


def _with(context, known):
    return replace(context, evidence={each.id: each for each in known}.get)


def _apply(folder, patch):
    subprocess.run(["git", "apply", "-"], cwd=folder, input=patch.encode(), check=True)


def _state(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_draft_is_a_patch_that_git_applies_and_changes_no_file_of_the_project(draft, faulty):
    before = _state(faulty)
    result, *_ = await draft(FIX)
    assert _state(faulty) == before
    assert result.summary == "patch of 1 file: 1 line added, 1 removed; not applied"
    _apply(faulty, result.output["patch"])
    assert (faulty / "loss.py").read_text() == LOSS.replace("(len(values) - 1)", "len(values)")


async def test_a_draft_may_create_a_file_and_change_one_without_a_last_newline(draft, faulty):
    (faulty / "end.txt").write_text("a\nb")
    result, *_ = await draft(
        [{"path": "sub/new.py", "old": "", "new": "x = 1\n"}, {"path": "end.txt", "old": "b", "new": "c"}]
    )
    _apply(faulty, result.output["patch"])
    assert (faulty / "sub" / "new.py").read_text() == "x = 1\n"
    assert (faulty / "end.txt").read_text() == "a\nc"


async def test_a_draft_continues_an_earlier_one(draft, faulty):
    _, _, known = await draft(FIX)
    more = [{"path": "loss.py", "old": "return sum(values)", "new": "return float(sum(values))"}]
    result, *_ = await draft(more, base=known[0].id, known=known)
    assert "+    return float(sum(values)) / len(values)" in result.output["patch"]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"path": "loss.py", "old": "nothing like it", "new": "x"}, "occurs 0 times"),
        ({"path": "loss.py", "old": "values", "new": "x"}, "occurs 3 times"),
        ({"path": "loss.py", "old": "", "new": "x"}, "creates a file that exists"),
        ({"path": "nosuch.py", "old": "x", "new": "y"}, "there is no such file"),
        ({"path": "../outside.py", "old": "", "new": "x"}, "outside the project"),
        ({"path": ".env", "old": "", "new": "x"}, "not written by models"),
        ({"path": ".esper/settings.toml", "old": "", "new": "x"}, "is protected"),
        ({"path": "loss.py", "old": "sum", "new": "sum"}, "change nothing"),
    ],
)
async def test_an_edit_that_cannot_be_made_is_refused_with_the_reason(draft, faulty, edit, said):
    with pytest.raises(EvidenceError, match=said):
        await draft([edit])


async def test_edits_without_their_parts_are_refused(context, faulty):
    with pytest.raises(UsageError, match="of tool 'draft-patch'"):
        await draft_patch.run(context, {"edits": [{"path": "loss.py"}]})


async def test_a_draft_of_a_file_that_changed_since_is_refused(draft, faulty):
    _, context, known = await draft(FIX)
    (faulty / "loss.py").write_text(LOSS + "\n")
    with pytest.raises(EvidenceError, match="changed since the patch was drafted"):
        await check_draft.run(context, {"patch": known[0].id, "code": "print(1)"})


async def test_what_is_not_a_draft_is_refused(context, faulty):
    with pytest.raises(EvidenceError, match="is not a drafted patch"):
        await check_draft.run(context, {"patch": "e1", "code": "print(1)"})


async def test_a_check_of_nothing_is_refused(draft):
    _, context, known = await draft(FIX)
    with pytest.raises(UsageError, match="nothing to check"):
        await check_draft.run(context, {"patch": known[0].id})


async def test_tests_and_code_run_with_the_patch_while_the_project_keeps_its_fault(draft, faulty):
    before = _state(faulty)
    _, context, known = await draft(FIX)
    code = "from loss import mean\nprint(mean([2, 4]))"
    result = await check_draft.run(context, {"patch": known[0].id, "tests": ["test_loss.py"], "code": code})
    assert result.output["tests"]["counts"]["passed"] == 1
    assert result.output["code"]["printed"].strip() == "3.0"
    assert {path: data for path, data in _state(faulty).items() if path in before} == before


async def test_a_check_says_nothing_about_the_project_itself(draft, faulty):
    wrong = [{"path": "loss.py", "old": "- 1", "new": "- 5"}]
    _, context, known = await draft(wrong)
    result = await check_draft.run(context, {"patch": known[0].id, "tests": ["test_loss.py"]})
    assert result.output["tests"]["outcome"] == "failed"
    assert result.claims == ()
    assert result.examined == ()


@pytest.mark.slow
async def test_a_patched_function_is_compared_with_the_one_of_the_project(draft, faulty):
    slow = "    return torch.stack([row.relu() for row in x])\n"
    source = f"import torch\n\n\ndef make():\n    return (torch.randn(512, 64),)\n\n\ndef work(x):\n{slow}"
    (faulty / "work.py").write_text(source)
    _, context, known = await draft([{"path": "work.py", "old": slow, "new": "    return x.relu()\n"}])
    arguments = {"patch": known[0].id, "compare": "work.py:work", "inputs_from": "work.py:make"}
    result = await check_draft.run(context, arguments)
    assert result.output["comparison"]["outcome"] == "faster as claimed"
    assert (faulty / "work.py").read_text() == source
