"""Tests of the query about export."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

SUBJECT = InspectionSubject(("export",))
MUST, SHOULD, DESCRIPTION = Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK, Assessment.DESCRIPTION
NET = (
    "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x, mask=None):\n        {}\n"
)
EXPORT = '\n\ntorch.onnx.export(Net().eval(), torch.zeros(1, 8), "net.onnx", dynamo=True{})\n'


def found(source, *assessments, subject=SUBJECT):
    done = inspect_sources({"net.py": source}, subject, names=["export-blockers"])
    assert not done.results[0].problem
    return [fact for fact in done.results[0].facts if fact.assessment in assessments]


def exported(body):
    return NET.format(body.replace("\n", "\n        ")) + EXPORT.format(", dynamic_shapes={}")


@pytest.mark.parametrize("body", ["if x.max() > 1:\n    x = x / 2\nreturn x", "return x.numpy()"])
def test_what_leaves_the_graph_must_change(body):
    assert found(exported(body), MUST)


@pytest.mark.parametrize(
    "body",
    [
        "return x[:, : int(x.shape[0] / 2)]",
        "return x * x.sum().item()",
        "x += 1\nreturn x.view(-1)",
        "return x[x.nonzero()]",
        "return {'logits': x, 'mask': mask}",
        "for t in range(x.shape[1]):\n    x = x + t\nreturn x",
    ],
)
def test_what_the_example_fixes_should_be_checked(body):
    assert found(exported(body), SHOULD)


@pytest.mark.parametrize(
    "body",
    [
        "if self.training:\n    if x.max() > 1:\n        return x\nreturn x.abs()",
        "if not torch.jit.is_tracing():\n    assert x.max().item() < 1\nreturn x.abs()",
        "if mask is not None:\n    x = x * mask\nreturn x",
        "if x.shape[0] > 1:\n    x = x.abs()\nreturn x",
        "x = x + 1\nx += 1\nreturn x",
        "for layer in self.layers:\n    x = layer(x)\nreturn x",
        "return x.view(x.shape[0], -1)",
    ],
)
def test_what_an_exporter_takes_is_not_reported(body):
    assert not found(exported(body), MUST, SHOULD)


def test_code_that_runs_only_in_evaluation_is_read():
    assert found(exported("if not self.training:\n    return x.numpy()\nreturn x"), MUST)


def test_an_export_without_dynamic_sizes_should_be_checked():
    assert found(NET.format("return x") + EXPORT.format(""), SHOULD)
    assert found(NET.format("return x") + EXPORT.format(", dynamic_shapes={}"), DESCRIPTION)


def test_without_an_export_the_named_module_is_read():
    other = NET.format("return x.numpy()").partition("class")[2].replace("Net", "Other")
    source = f"{NET.format('return x.numpy()')}\n\nclass{other}"
    named = InspectionSubject(("export",), symbols=("net.py:Other",))
    assert len(found(source, MUST, subject=named)) == 1
    guessed = found(source, MUST, SHOULD)
    assert [each.assessment for each in guessed] == [SHOULD, SHOULD]
    assert all(each.text.endswith("(if this module is exported)") for each in guessed)


def test_a_named_function_is_followed_into_the_loop_that_runs_until_a_value_is_reached():
    source = (
        "class Solver:\n    def integrate(self, t):\n        while t > self.state.end:\n            self.step(t)\n"
        "        while self.count < len(t):\n            self.count += 1\n        return self.state\n\n\n"
        "SOLVERS = {'one': Solver}\n\n\ndef solve(t, name):\n"
        "    solver = SOLVERS[name]()\n    return solver.integrate(t)\n"
    )
    subject = InspectionSubject(("export",), symbols=("a.py:solve",))
    done = inspect_sources({"a.py": source}, subject, names=["export-blockers"])
    (fact,) = [each for each in done.results[0].facts if "while" in each.text]
    assert (fact.line, fact.assessment) == (3, Assessment.SHOULD_CHECK)
    assert "if these values are tensors" in fact.text
