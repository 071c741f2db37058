"""Tests of `esper_agents.review.usages.entries`: every entry's examples have the verdicts that they name."""

from __future__ import annotations

import inspect as introspection

import pytest

from esper_agents.requests.parsing import parse_request
from esper_agents.review.index import ProjectIndex
from esper_agents.review.parsing import tables_of
from esper_agents.review.source import from_bytes
from esper_agents.review.usages.answers import answer_usage
from esper_agents.review.usages.entries import UsageVerdict, usage_entries
from esper_agents.review.usages.registry import conditions

ENTRIES = usage_entries()
EXAMPLES = [(name, number) for name, entry in ENTRIES.items() for number in range(len(entry.examples))]


@pytest.mark.parametrize(("name", "number"), EXAMPLES)
def test_a_question_is_about_its_entry_and_has_the_verdict_of_the_example(name, number) -> None:
    example = ENTRIES[name].examples[number]
    request = parse_request(example.question)
    assert name in {usage.name for usage in request.usages}
    statements = {each.kind: (each.value, each.text) for each in request.statements}
    file = tables_of(from_bytes(example.code.lstrip("\n").encode(), "example.py"))
    line = request.usages[0].line
    answers = list(answer_usage(ENTRIES[name], [file], ProjectIndex([file]), line=line, statements=statements))
    assert answers, "no line of the example is about the entry"
    assert answers[0].verdict is example.verdict, answers[0].text
    assert example.says in answers[0].text
    assert "{" not in answers[0].text.replace(answers[0].site.code, "")


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_an_entry_has_decided_and_undecided_examples_and_existing_conditions(entry) -> None:
    verdicts = {example.verdict for example in entry.examples}
    assert verdicts - {UsageVerdict.UNDECIDED}
    assert UsageVerdict.UNDECIDED in verdicts
    assert entry.source.startswith("https://")
    assert entry.version
    assert entry.does.endswith(".")
    assert entry.tell.endswith((".", "`"))
    for case in entry.cases:
        assert case.when, "a case without a condition describes and answers nothing"
        assert case.verdict is not UsageVerdict.UNDECIDED
        assert not case.answer.endswith(".")
        for text in case.when:
            name, *words = text.removeprefix("not ").split()
            introspection.signature(conditions()[name]).bind(None, *words)


def answers(name, code, *, line=0):
    file = tables_of(from_bytes(code.encode(), "example.py"))
    return list(answer_usage(ENTRIES[name], [file], ProjectIndex([file]), line=line))


def test_a_method_of_the_project_with_the_name_of_an_api_is_another_thing() -> None:
    code = (
        "class Loss:\n    def sample(self, n):\n        return n\n\n    def run(self):\n        return self.sample(3)\n"
    )
    assert answers("sample-rsample", code) == []


def test_two_backward_calls_inside_one_call_that_passes_the_option_on_do_not_need_it() -> None:
    code = (
        "import torch\nfrom torch import nn\n\n\ndef jvp(out, x, **more):\n"
        "    v = torch.autograd.grad(out, x, create_graph=True)\n    return torch.autograd.grad(v, x, **more)\n\n\n"
        "model = nn.Linear(3, 1)\nx = torch.ones(3, requires_grad=True)\njvp(model(x).sum(), x, retain_graph=True)\n"
    )
    (answer,) = answers("retain-graph", code)
    assert answer.verdict is not UsageVerdict.NEEDED


def test_a_detach_in_an_autograd_function_cuts_no_gradient() -> None:
    code = (
        "import torch\n\n\nclass Round(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        y = x.detach()\n        return y.round()\n"
    )
    (answer,) = answers("detach", code)
    assert "the detach cuts no gradient" in answer.text


def test_the_nearest_place_within_three_lines_is_meant() -> None:
    code = "def f(a, b):\n    x = a.squeeze()\n\n\n\n\n\n    y = b.squeeze()\n    return x, y\n"
    assert [answer.site.line for answer in answers("squeeze", code, line=9)] == [8]
    assert answers("squeeze", code, line=20) == []


def test_layers_of_a_factory_are_unknown() -> None:
    code = (
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(3, 3, 3, bias=False)\n        self.norm = make_norm(3)\n\n"
        "    def forward(self, x):\n        return self.norm(self.conv(x))\n"
    )
    (answer,) = answers("bias-before-norm", code)
    assert answer.verdict is UsageVerdict.UNDECIDED


def test_a_gradient_between_outputs_and_inputs_decides_nothing_about_the_whole_graph() -> None:
    code = (
        "import torch\nfrom torch import nn\n\nmodel = nn.Linear(3, 1)\nx = torch.ones(3, requires_grad=True)\n"
        "out = model(x).sum()\ng = torch.autograd.grad(out, x, retain_graph=True)\nout.backward()\n"
    )
    (answer,) = answers("retain-graph", code)
    assert answer.verdict is UsageVerdict.UNDECIDED
