from __future__ import annotations

import pytest

from esper_agents.domain.evidence import lines_read
from esper_agents.errors import EvidenceError, UsageError
from tests.tools.evidence_samples import evidence_with

pytestmark = pytest.mark.anyio

MODEL = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return self.scale(x)

    def scale(self, x):
        return x * 2
"""
TRAIN = """\
from model import Net


def step(net, x):
    return net(x).mean()


def main():
    net = Net()
    return step(net, 1)
"""


@pytest.fixture
def program(project):
    (project / "model.py").write_text(MODEL)
    (project / "train.py").write_text(TRAIN)
    return project


async def test_a_function_comes_with_its_lines_and_the_calls_that_reach_it(call, program):
    found = await call("find-symbol", symbol="step")
    (definition,) = found.output["definitions"]
    assert (definition["path"], definition["first_line"], definition["last_line"]) == ("train.py", 4, 5)
    (caller,) = definition["called_by"]
    assert (caller["path"], caller["line"], caller["in"]) == ("train.py", 10, "main")
    assert caller["text"] == "return step(net, 1)"


async def test_a_method_is_found_by_class_and_name_and_a_call_through_self_reaches_it(call, program):
    found = await call("find-symbol", symbol="Net.scale")
    (definition,) = found.output["definitions"]
    assert definition["kind"] == "method"
    assert [(each["path"], each["line"], each["in"]) for each in definition["called_by"]] == [
        ("model.py", 6, "Net.forward")
    ]


async def test_the_calls_of_a_class_are_those_that_make_an_object_of_it(call, program):
    found = await call("find-symbol", symbol="Net")
    (definition,) = found.output["definitions"]
    assert definition["bases"] == ["torch.nn.Module"]
    assert [(each["path"], each["line"]) for each in definition["called_by"]] == [("train.py", 9)]


async def test_the_functions_that_a_function_calls_are_named_with_their_place(call, program):
    found = await call("find-symbol", symbol="main")
    (definition,) = found.output["definitions"]
    assert {"name": "step", "place": "train.py:4", "called_at": 10} in definition["calls"]


async def test_only_the_lines_shown_count_as_read(call, program):
    found = await call("find-symbol", symbol="step")
    assert lines_read(evidence_with(found)) == {"train.py": ((4, 4), (10, 10))}


async def test_a_name_that_is_not_defined_is_an_error_with_a_next_step(call, program):
    with pytest.raises(EvidenceError, match="defines 'optimise'") as refused:
        await call("find-symbol", symbol="optimise")
    assert "search-files" in refused.value.remedy


async def test_what_is_not_a_name_is_refused(call, program):
    with pytest.raises(UsageError, match="is not the name of a function"):
        await call("find-symbol", symbol="net.forward(x")


async def test_files_with_secrets_are_not_searched(call, program):
    (program / ".gitignore").write_text("local.py\n")
    (program / "local.py").write_text("from train import step\n\n\nstep(0, 1)\n")
    found = await call("find-symbol", symbol="step")
    assert [each["path"] for each in found.output["definitions"][0]["called_by"]] == ["train.py"]
