"""Claims of the review that a run bears out, refutes, or leaves as they are."""

from __future__ import annotations

from types import ModuleType

import pytest
from torch_toys import anyio_backend, bench, needs_torch, write  # noqa: F401 - fixtures

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.review.rule import FileRule, RuntimeExpectation
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext

pytestmark = [pytest.mark.anyio, needs_torch]

MODEL = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        total = 0.0
        for row in x:
            total += row.sum().item()  # repeats
        y = x.permute(1, 0)
        if x.sum() > 1e9:
            y = y.view(-1)  # raises, and is never reached
        y = x.view(-1)  # raises? no
        return self.fc(x) + total


def broken(x):
    y = x.permute(1, 0)
    return y.view(-1)  # raises


def gentle(x):
    return x.cos()  # breaks? no


def breaking(x):
    torch._dynamo.graph_break()  # breaks
    return x.sin()


def get_inputs():
    return torch.randn(4, 8)
"""
LINES = {text.partition("# ")[2]: number for number, text in enumerate(MODEL.splitlines(), 1) if "# " in text}


def rule(code_, shown_, mark):
    """Return a rule that claims something of every line with a comment that begins so."""

    class Marked(FileRule):
        """Claims what a comment says, so that a run has something to look at."""

        code, name = code_, f"marked-{mark}"
        severity, category = Severity.WARNING, Category.CORRECTNESS
        bad = good = ""
        shown = shown_

        def look(self, file):
            nodes = {getattr(node, "lineno", 0): node for node in file.tree.body}
            for number, text in enumerate(file.lines, 1):
                if f"# {mark}" in text:
                    node = nodes[max(each for each in nodes if each <= number)]
                    hit = self.hit(node, "it says so", remedy="change it", confidence=Confidence.MODERATE)
                    yield type(hit)(number, 1, number, *[getattr(hit, each) for each in TEXTS])

    return Marked


TEXTS = ("message", "remedy", "confidence", "basis")


@pytest.fixture(scope="module")
def rules():
    module = ModuleType("marked_rules")
    marks = [
        ("TST801", RuntimeExpectation.REPEATS, "repeats"),
        ("TST802", RuntimeExpectation.RAISES, "raises"),
        ("TST803", RuntimeExpectation.BREAKS, "breaks"),
    ]
    for number, each in enumerate(marks):
        made = rule(*each)
        made.__module__, made.__qualname__ = "marked_rules", f"Marked{number}"
        setattr(module, f"Marked{number}", made)
    return module


@pytest.fixture(scope="module")
def lab_project(tmp_path_factory):
    """Return the folder of the project, for the bench of the module."""
    return write(tmp_path_factory.mktemp("lab-project"), {"m.py": MODEL})


@pytest.fixture
def confirm(tmp_path, rules, lab_project, bench):  # noqa: F811 - fixtures
    """Confirm claims about lines of the model with one target."""

    async def run(target, *texts):
        context = ToolContext(lab_project, rules=(rules,), home=tmp_path / "home", bench=bench)
        lines = [f"m.py:{LINES[each]}" for each in texts]
        found = (
            await load_tools().get("torch-confirm").run(context, {"target": target, "paths": ["m.py"], "lines": lines})
        )
        return found, {each["location"]: each["found"] for each in found.output["settled"]}

    return run


def at(text):
    return f"m.py:{LINES[text]}"


async def test_a_line_that_runs_many_times_in_a_call_bears_the_claim_out_and_makes_it_sure(confirm):
    found, settled = await confirm("m.py:Net", "repeats")
    assert settled == {at("repeats"): "borne out"}
    (claim,) = found.claims
    assert claim.confidence is Confidence.HIGH
    assert "confirmed by a run of m.py:Net: it runs 12 times in 3 calls" in claim.basis
    assert found.refutes == ()
    assert [each.path for each in found.examined] == ["m.py"]
    assert found.artifacts


async def test_a_line_that_ran_and_did_not_raise_refutes_and_one_that_did_not_run_settles_nothing(confirm):
    found, settled = await confirm("m.py:Net", "raises? no", "raises, and is never reached")
    assert settled == {at("raises? no"): "refuted", at("raises, and is never reached"): "unsettled"}
    (mark,) = found.refutes
    assert mark == next(each["fingerprint"] for each in found.output["settled"] if each["found"] == "refuted")
    assert found.claims == ()


async def test_a_line_that_raises_bears_the_claim_out(confirm):
    found, settled = await confirm("m.py:broken", "raises", "raises? no")
    assert settled == {at("raises"): "borne out", at("raises? no"): "unsettled"}
    assert found.refutes == ()


async def test_a_size_that_does_not_fit_is_borne_out_where_the_run_raises_with_the_same_sizes(lab_project, bench):  # noqa: F811
    text = (
        "from torch import nn\nimport torch\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(64, 4))\n\n"
        "    def forward(self, x):\n        return self.body(x)\n\n\ndef get_inputs():\n    return torch.randn(8, 16)\n"
    )
    write(lab_project, {"sizes.py": text})
    arguments = {"target": "sizes.py:Net", "paths": ["sizes.py"], "lines": ["sizes.py:8"]}
    found = await load_tools().get("torch-confirm").run(ToolContext(lab_project, bench=bench), arguments)
    (settled,) = found.output["settled"]
    assert (settled["rule"], settled["found"]) == ("ESP205", "borne out")
    assert "RuntimeError at sizes.py:11: mat1 and mat2 shapes cannot be multiplied (8x32 and 64x4)" in settled["said"]


@pytest.mark.slow
async def test_a_break_is_borne_out_where_the_compiler_breaks_and_refuted_where_it_makes_one_graph(confirm):
    _, settled = await confirm("m.py:breaking", "breaks", "breaks? no")
    assert settled == {at("breaks"): "borne out", at("breaks? no"): "unsettled"}
    found, settled = await confirm("m.py:gentle", "breaks", "breaks? no")
    assert settled == {at("breaks"): "unsettled", at("breaks? no"): "refuted"}
    assert len(found.refutes) == 1


async def test_lines_that_nothing_is_claimed_of_are_bad_input(lab_project):
    tool = load_tools().get("torch-confirm")
    with pytest.raises(UsageError, match="no finding on these lines"):
        await tool.run(ToolContext(lab_project), {"target": "m.py:Net", "paths": ["m.py"], "lines": ["m.py:1"]})


async def test_a_target_that_cannot_be_run_is_no_measurement(confirm):
    with pytest.raises((EvidenceError, UsageError)):
        await confirm("m.py:absent", "repeats")


def test_a_call_can_be_told_as_a_command():
    tool = load_tools().get("torch-confirm")
    arguments = {"target": "m.py:Net", "paths": ["m.py"], "lines": ["m.py:4", "m.py:9"], "inputs": ["randn(4,8)"]}
    said = tool.rerun(arguments)
    assert said == "esper torch watch m.py:Net --input 'randn(4,8)' --line m.py:4 --line m.py:9"
