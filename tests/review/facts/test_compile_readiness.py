"""Tests of the facts about torch.compile."""

from __future__ import annotations

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

NET = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = {part}

    def forward(self, x):
        return self.part(x){more}


def train(data, optimizer):
    model = {model}
    loader = DataLoader(data, batch_size=32)
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""


def facts(part="nn.Linear(4, 4)", more="", model="Net()"):
    text = NET.format(part=part, more=more, model=model)
    done = inspect_sources({"a.py": text}, InspectionSubject(("torch.compile",)), names=["compile-readiness"])
    assert done.results[0].problem == ""
    return {(fact.assessment, fact.line) for fact in done.results[0].facts}


def test_a_module_without_known_breaks_is_a_place_to_begin():
    assert facts() == {(Assessment.FINE, 11)}


def test_a_fetch_in_forward_is_a_break_to_come():
    assert facts(more=" * x.max().item()") == {(Assessment.OPEN, 12)}


def test_an_array_of_numpy_is_traced_and_no_break():
    assert (Assessment.FINE, 11) in facts(more=".numpy()")


def test_a_recurrent_layer_is_told():
    assert (Assessment.OPEN, 9) in facts(part="nn.LSTM(4, 4)")
    assert (Assessment.SHOULD_CHECK, 9) in facts(part="nn.LSTM(4, 4)", model="torch.compile(Net())")


def test_what_is_compiled_and_its_last_batch_are_told():
    assert facts(model="torch.compile(Net())") == {(Assessment.DESCRIPTION, 16), (Assessment.SHOULD_CHECK, 17)}
