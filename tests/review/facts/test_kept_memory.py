"""Tests of the facts about memory."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

LOOP = """\
import torch

def train(model, loader, optimizer, criterion, history):
    {before}
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward({backward})
        optimizer.step()
        {after}
"""


def facts(text, topic="memory growth"):
    done = inspect_sources({"a.py": text}, InspectionSubject((topic,)), names=["kept-memory"])
    assert done.results[0].problem == ""
    return done.results[0].facts


def loop(before="losses = []", backward="", after="pass"):
    return facts(LOOP.format(before=before, backward=backward, after=after))


@pytest.mark.parametrize(
    ("after", "assessment"),
    [
        ("losses.append(loss)", Assessment.MUST_CHANGE),
        ("losses.append(loss.item())", Assessment.FINE),
        ("losses.append((float(loss), 1))", Assessment.FINE),
        ("losses.append(loss.detach())", Assessment.OPEN),
        ("losses.append(x)", Assessment.OPEN),
    ],
)
def test_what_a_list_gets_at_every_step_decides(after, assessment):
    assert [each.assessment for each in loop(after=after)] == [assessment]


def test_a_list_that_is_bounded_does_not_grow():
    assert [each.assessment for each in loop(before="losses = deque(maxlen=9)", after="losses.append(x)")] == [
        Assessment.FINE
    ]


def test_a_list_of_each_step_is_no_store():
    assert loop(after="parts = []; parts.append(x)") == ()


def test_a_kept_graph_is_told_unless_another_backward_uses_it():
    assert [each.assessment for each in loop(backward="retain_graph=True")] == [Assessment.SHOULD_CHECK]
    twice = loop(backward="retain_graph=True", after="loss.backward()")
    assert Assessment.FINE in {each.assessment for each in twice}


def test_a_graph_kept_for_the_next_loss_of_an_inner_loop_is_fine():
    losses = "for name, part in model.losses(x): part.backward(retain_graph=True)"
    assert [each.assessment for each in loop(after=losses)] == [Assessment.FINE]


def test_a_hook_that_keeps_an_output_is_told_and_one_that_detaches_is_fine():
    text = (
        "kept = {}\n\n\ndef hook(module, given, output):\n    kept['x'] = output\n\n\n"
        "def watch(model):\n    model.register_forward_hook(hook)\n"
    )
    assert [fact.assessment for fact in facts(text)] == [Assessment.SHOULD_CHECK]
    assert [fact.assessment for fact in facts(text.replace("= output", "= output.detach()"))] == [Assessment.FINE]


def test_layers_in_a_row_without_checkpoints_are_told_for_the_peak_only():
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.layers = nn.ModuleList([Block(4) for _ in range(9)])\n\n"
        "    def forward(self, x):\n        for layer in self.layers:\n            x = layer(x)\n        return x\n"
    )
    assert [fact.line for fact in facts(text, "memory")] == [11]
    assert facts(text) == ()
    assert facts(text.replace("x = layer(x)", "x = checkpoint(layer, x)"), "memory") == ()
    assert facts(text.replace("Block(4)", "nn.Linear(4, 4)"), "memory") == ()
    parallel = text.replace("x = layer(x)", "y.append(layer(x))").replace("        for", "        y = []\n        for")
    assert facts(parallel, "memory") == ()


def test_only_attention_scores_count_as_a_matrix_of_lengths():
    text = "import torch\n\n\ndef {name}(q, k, v):\n    s = q @ k.transpose(-2, -1) / 8\n    return s.softmax(-1) @ v\n"
    assert "attention matrix" in facts(text.format(name="attention"), "memory")[0].text
    assert facts(text.format(name="assign"), "memory") == ()


def test_a_detached_value_written_into_a_buffer_is_fine():
    source = (
        "import torch\n\n\nclass Queue:\n    def __init__(self):\n        self.rows = torch.zeros(9, 4)\n\n"
        "    def add(self, at, x):\n        self.rows[at] = x.detach()\n"
    )
    done = inspect_sources({"queue.py": source}, InspectionSubject(("memory growth",)), names=["kept-memory"])
    assert [(fact.line, fact.assessment) for fact in done.results[0].facts] == [(9, Assessment.FINE)]


EVALUATOR = """\
import torch


class Scorer(torch.nn.Module):
    def score_all(self, batch):
        return self.layer(batch)


class Evaluator:
    {decorator}
    def evaluate(self, loader):
        ranks = []
        for batch in loader:
            {context}
                ranks.append(self.model.score_all(batch).argsort().tolist())
        return ranks
"""


def test_an_evaluation_that_records_a_graph_is_told_and_one_without_gradients_is_not():
    recording = facts(EVALUATOR.format(decorator="", context="if True:"), "memory")
    assert [(each.assessment, "records a graph" in each.text) for each in recording] == [
        (Assessment.SHOULD_CHECK, True)
    ]
    assert facts(EVALUATOR.format(decorator="", context="with torch.no_grad():"), "memory") == ()
    assert facts(EVALUATOR.format(decorator="@torch.no_grad()", context="if True:"), "memory") == ()


def test_what_keeps_no_graph_is_told_of_growth_and_not_of_a_peak():
    text = LOOP.format(before="losses = []", backward="", after="losses.append(loss.item())")
    assert [each.assessment for each in facts(text)] == [Assessment.FINE]
    assert facts(text, "memory") == ()


EPOCHS = """\
import torch


class Net(torch.nn.Module):
    def fit(self, loader, valid, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                self.optimizer.zero_grad()
                self.loss_of(self(x), y).backward()
                self.optimizer.step()
            self.eval()
            {context}
                value = self.loss_of(self(valid[0]), valid[1])
            self.history["valid"].append({stored})
"""


@pytest.mark.parametrize(
    ("context", "stored", "is_told"),
    [
        ("if True:", "value", True),
        ("if True:", "value.item()", False),
        ("with torch.no_grad():", "value", False),
    ],
)
def test_a_loss_of_each_epoch_that_is_stored_with_its_graph_is_told(context, stored, is_told):
    told = [each for each in facts(EPOCHS.format(context=context, stored=stored)) if "holds the graph" in each.text]
    assert bool(told) is is_told
