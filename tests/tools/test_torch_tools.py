"""The tools over the lab, on toy models, on the CPU, in real workers; one warm lab for all of them."""

from __future__ import annotations

import json

import pytest
from torch_toys import SIZE, anyio_backend, bench, lab_project, needs_torch  # noqa: F401 - fixtures

from esper_agents.domain.codec import canonical
from esper_agents.domain.evidence import Risk
from esper_agents.domain.finding import Confidence, Severity
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext

pytestmark = [pytest.mark.anyio, needs_torch]
TOOLS = load_tools()
MEASURING = [
    "torch-compare",
    "torch-data",
    "torch-explain",
    "torch-export",
    "torch-memory",
    "torch-nan",
    "torch-profile",
]


@pytest.fixture
def call(lab_project, bench, tmp_path):  # noqa: F811 - fixtures
    """Call a tool on the project, and check what is true of every result."""

    async def run(name, **arguments):
        tool = TOOLS.get(name)
        found = await tool.run(ToolContext(lab_project, home=tmp_path, bench=bench), arguments)
        (whole, *_) = found.artifacts
        report = json.loads(Artifacts(tmp_path / "artifacts").path(whole.sha256).read_text())
        assert report["kind"] == name.removeprefix("torch-")
        assert report["sandbox"]["sandbox"] in {"bubblewrap", "landlock"}
        assert found.output["torch"] == report["environment"]["torch"]["version"]
        assert len(canonical(found.output)) < 40_000
        assert tool.rerun(arguments).startswith(f"esper torch {report['kind']} ")
        lines = {each.path: each.lines for each in found.examined}
        assert all(1 <= claim.location.line <= lines[claim.location.path] for claim in found.claims)
        return found

    return run


@pytest.mark.parametrize("name", MEASURING)
def test_what_runs_in_the_sandbox_asks_nobody_and_may_be_run_again(name):
    tool = TOOLS.get(name)
    assert (tool.risk, tool.is_repeatable) == (Risk.LOW, True)


async def test_a_graph_break_is_claimed_at_its_line_high_because_three_ways_saw_it(call):
    found = await call("torch-explain", target="model.py:Net")
    (claim,) = found.claims
    assert (claim.rule, claim.name, str(claim.location)) == ("LAB201", "graph-broken-here", "model.py:12")
    assert claim.confidence is Confidence.HIGH
    assert claim.basis.count(",") == 2
    assert claim.excerpt.strip() == "if y.sum() > 0:"
    assert found.output["status"] == "breaks"
    assert [each.path for each in found.examined] == ["model.py"]


async def test_export_that_fails_is_claimed_once_for_the_ways_that_fail_at_one_line(call):
    found = await call("torch-export", target="model.py:Net")
    assert found.output["status"] == "fails"
    (claim,) = found.claims
    assert (claim.rule, str(claim.location)) == ("LAB206", "model.py:12")
    assert "strict and non-strict" in claim.message


async def test_a_slow_dataset_is_claimed_at_the_line_that_takes_the_time(call):
    found = await call("torch-data", target="batches.py:make_loader", step="batches.py:step", effort="quick")
    (claim,) = found.claims
    assert (claim.rule, claim.name, str(claim.location)) == ("LAB303", "step-waits-for-data", "batches.py:12")
    assert found.output["status"] == "data"
    assert "batches.py" in [each.path for each in found.examined]


async def test_the_first_non_finite_number_is_a_critical_claim_that_one_way_saw(call):
    found = await call("torch-nan", target="losses.py:Loss", steps=3, train=True)
    (claim,) = found.claims
    assert (claim.rule, str(claim.location), claim.severity) == ("LAB501", "losses.py:8", Severity.CRITICAL)
    assert claim.confidence is Confidence.MODERATE
    assert "log-of-zero" in found.summary


async def test_growing_memory_is_claimed_where_it_is_kept(call):
    found = await call("torch-memory", target="growing.py:make_step", steps=6)
    grows = next(claim for claim in found.claims if claim.rule == "LAB401")
    assert grows.excerpt.strip() == "kept.append(loss)"
    assert grows.confidence is Confidence.HIGH
    assert "held by kept" in grows.message
    assert found.output["status"] == "leak"
    assert found.output["bytes_per_step"] == 4


@pytest.mark.slow
async def test_a_profile_says_what_binds_and_which_tools_agree(call):
    found = await call("torch-profile", target="ops.py:slow", inputs=[SIZE], effort="quick")
    assert 0 < found.output["share"] <= 1
    assert found.output["status"] in found.summary
    assert {"torch.profiler", "cProfile"} <= set(found.output["witnesses"])
    assert {claim.location.path for claim in found.claims} == {"ops.py"}
    assert {artifact.media_type for artifact in found.artifacts} >= {"application/json", "image/svg+xml"}


@pytest.mark.slow
async def test_a_candidate_that_is_faster_claims_nothing_and_says_its_interval(call):
    found = await call("torch-compare", baseline="ops.py:slow", candidate="ops.py:fast", inputs=[SIZE], claim="1.5")
    assert found.output["outcome"] == "faster as claimed"
    assert found.claims == ()
    assert found.output["verdict"]["speedup"]["lower"] > 1.5
    assert found.output["threshold"] == 1.5


async def test_a_candidate_that_is_wrong_is_a_critical_claim_at_its_definition(call):
    found = await call("torch-compare", baseline="ops.py:slow", candidate="ops.py:wrong", inputs=[SIZE])
    (claim,) = found.claims
    assert found.output["outcome"] == "wrong"
    assert (claim.rule, str(claim.location), claim.severity) == ("LAB101", "ops.py:15", Severity.CRITICAL)
    assert "plain 1" in claim.message


@pytest.mark.slow
async def test_a_copy_is_not_as_fast_as_claimed(call):
    found = await call("torch-compare", baseline="ops.py:slow", candidate="ops.py:same", inputs=[SIZE], claim="2")
    (claim,) = found.claims
    assert found.output["outcome"] == "not as fast as claimed"
    assert (claim.rule, str(claim.location)) == ("LAB102", "ops.py:19")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "model.py:Nothing"}, "has no 'Nothing'"),
        ({"target": "ops.py:slow"}, "needs inputs: x"),
        ({"target": "model.py:Net", "inputs": ["rand("]}, "invalid input"),
    ],
)
async def test_what_cannot_be_run_is_bad_input(call, arguments, words):
    with pytest.raises(UsageError, match=words):
        await call("torch-explain", **arguments)


@pytest.mark.parametrize("target", ["nowhere.py:f", "../outside.py:f", "/etc/passwd.py:f"])
async def test_what_is_not_in_the_project_is_not_run(call, target):
    with pytest.raises((EvidenceError, UsageError)):
        await call("torch-explain", target=target)


async def test_a_claimed_speed_up_must_be_a_number(call):
    with pytest.raises(UsageError, match="invalid speed-up 'fast'"):
        await call("torch-compare", baseline="ops.py:slow", candidate="ops.py:fast", claim="fast")
    with pytest.raises(UsageError, match="invalid mode 'sideways'"):
        await call("torch-compare", baseline="ops.py:slow", candidate="ops.py:fast", mode="sideways")
