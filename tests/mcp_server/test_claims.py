"""Claims that a coding agent hands in: what is measured decides, and nothing else."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from mcp import Client

from esper_agents.domain.evidence import CallOutcome
from esper_agents.errors import UsageError
from esper_agents.mcp_server.claims import claim_request, decided, refuse_unknown_names
from esper_agents.mcp_server.server import build_server
from esper_agents.mcp_server.server_project import ServerProject

pytestmark = pytest.mark.anyio

CODE = """import torch

KEPT = []


def slow(x):
    return torch.stack([column.sum(0) for column in x.unbind(1)])


def fast(x):
    return x.sum(0)


def leaky(x):
    KEPT.append(x * 2)
    return x + 1


def fine(x):
    return x * 2


def broken(x):
    raise RuntimeError("not today")


def looping(x):
    kept = []
    for _ in range(40):
        kept.append(torch.relu(x))
    return torch.stack(kept).sum()


def looping_with_little(x):
    weight = torch.ones(8, requires_grad=True)
    scratch = torch.zeros(2048, 2048)
    total = 0
    for _ in range(30):
        total = total + (weight * torch.randn(8)).sum()
    return float(total)


def counts(codes, size):
    return torch.stack([(codes == code).sum() for code in range(size)])


def counts_fast(codes, size):
    return torch.bincount(codes, minlength=size)
"""


@asynccontextmanager
async def serving(project):
    async with ServerProject(project) as served, Client(build_server(served)) as client:

        async def claim(**arguments):
            result = await client.call_tool("submit_claim", {"wait_s": 300, **arguments})
            assert not result.is_error, result.content[0].text
            return result.structured_content

        yield served, claim


@pytest.mark.torch
async def test_a_leak_is_confirmed_at_its_line_and_certified(make_project):
    async with serving(make_project({"model.py": CODE})) as (served, claim):
        found = await claim(kind="leak", target="model.py:leaky")
        assert (found["outcome"], found["session"]["state"]) == ("confirmed", "done")
        assert found["reason"].startswith("model.py:15: memory grows here")
        opened = await served.opened()
        certificate = await opened.certificates.read(found["session"]["certificate"])
    about = claim_request("leak", "model.py:leaky", "", None, inputs=(), inputs_from="")
    assert decided(about, certificate)[0] == "confirmed"
    ran = next(each for each in certificate.evidence if each.tool == "torch-memory")
    own = {"runnable": ".esper/harness/model_leaky.py:make", "result": {"ended": "edited"}}
    edited = replace(ran, tool="torch-scaffold", output=own)
    outcome, reason = decided(about, replace(certificate, evidence=(edited, *certificate.evidence)))
    assert outcome == "confirmed"
    assert reason.startswith("by the project's own harness .esper/harness/model_leaky.py:make, which is not checked: ")
    # The same evidence says nothing of another function, and a call that failed says nothing at all.
    other = claim_request("leak", "model.py:fine", "", None, inputs=(), inputs_from="")
    assert decided(other, certificate) == ("not decided", decided(other, certificate)[1])
    failed = tuple(replace(each, outcome=CallOutcome.FAILED) for each in certificate.evidence)
    assert decided(about, replace(certificate, evidence=failed))[0] == "not decided"
    assert decided(about, replace(certificate, findings=()))[0] == "refuted"
    faster = claim_request("speedup", "model.py:leaky", "model.py:fine", 1.4, inputs=(), inputs_from="")
    assert decided(faster, certificate)[0] == "not decided"


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"kind": "leak", "target": "model.py:fine"}, "refuted"),
        ({"kind": "leak", "target": "model.py:broken"}, "not decided"),
        ({"kind": "leak", "target": "model.py:looping"}, "not decided"),
        ({"kind": "leak", "target": "model.py:looping_with_little"}, "not decided"),
        ({"kind": "nan", "target": "model.py:fine"}, "refuted"),
        ({"kind": "speedup", "target": "model.py:fast", "baseline": "model.py:slow", "ratio": 1.4}, "confirmed"),
        (
            {
                "kind": "speedup",
                "target": "model.py:slow",
                "baseline": "model.py:fast",
                "ratio": 1.4,
                "inputs": ["randn(64,32)"],
            },
            "refuted",
        ),
        (
            {
                "kind": "speedup",
                "target": "model.py:counts_fast",
                "baseline": "model.py:counts",
                "ratio": 3,
                "inputs": ["randint(0,512,(8192,))", "512"],
            },
            "confirmed",
        ),
    ],
)
async def test_what_is_measured_decides_a_claim(make_project, arguments, outcome):
    async with serving(make_project({"model.py": CODE})) as (_, claim):
        found = await claim(**arguments)
        assert found["outcome"] == outcome, found
        assert found["session"]["certificate"].startswith("crt_")
        assert found["reason"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("speedup", "a.py:f", "", 1.4), "needs a baseline"),
        (("speedup", "a.py:f", "a.py:g", None), "needs a baseline and a ratio"),
        (("leak", "a.py:f", "a.py:g", None), "has no baseline"),
        (("nan", "a.py:f", "", 2.0), "has no baseline and no ratio"),
    ],
)
def test_a_claim_that_cannot_be_tested_is_refused(arguments, problem):
    with pytest.raises(UsageError, match=problem):
        claim_request(*arguments, inputs=(), inputs_from="")
    with pytest.raises(UsageError, match="mutually exclusive"):
        claim_request(*arguments, inputs=("randn(2)",), inputs_from="a.py:make")


async def test_a_claim_about_a_name_that_the_file_does_not_have_starts_no_session(make_project):
    project = make_project({"model.py": CODE, "stars.py": "from model import *\n"})
    async with ServerProject(project) as served, Client(build_server(served)) as client:
        asked = {"kind": "leak", "target": "model.py:leak"}
        refused = await client.call_tool("submit_claim", asked)
        assert refused.is_error
        assert "model.py has no 'leak'" in refused.content[0].text
        assert "name one of: slow, fast, leaky" in refused.content[0].text
        assert await (await served.opened()).sessions.list() == ()


def test_names_that_only_a_run_knows_are_not_refused(tmp_path):
    (tmp_path / "stars.py").write_text("from model import *\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    refuse_unknown_names(tmp_path, ["stars.py:leaky", "broken.py:f", "missing.py:f", "package.module:f"])
