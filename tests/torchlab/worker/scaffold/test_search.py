"""The search for arguments: runs are bounded, and the first arguments that run are returned."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

import pytest

torch = pytest.importorskip("torch", reason="no torch: NO argument was searched")

from torch import nn  # noqa: E402 - wants torch

from esper_agents.torchlab.worker.scaffold.plan_runs import PlanRunner, describe  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.scaffold.search import Search  # noqa: E402


class Net(nn.Module):
    def __init__(self, config, classes):
        super().__init__()
        self.body = nn.Linear(config.n_embd, classes)

    def forward(self, x, mask):
        return self.body(x) * mask.view(*mask.shape, 1)


class Counter:
    def __init__(self, start: int):
        self.start = start

    def count(self, values):
        return values.sum() + self.start


def search(target, *, most=40, seconds=20.0, batch=0, **given):
    return Search(PlanRunner(target, **given), batch=batch).run(most=most, seconds=seconds)


def test_settings_that_a_constructor_reads_are_added_to_its_configuration():
    found = search(Net)
    assert found.ended == "found"
    assert dict(found.plan.make)["config"].text == "Settings(n_embd=64)"
    assert found.trains
    assert found.output.startswith("Tensor(2, ")


def test_an_object_is_constructed_for_a_method():
    found = search(Counter.count, owner=Counter)
    assert (found.ended, dict(found.plan.make)["start"].text) == ("found", "4")
    assert not found.trains


def test_an_exception_without_a_message_names_where_it_was_raised():
    def unfinished(x):
        raise NotImplementedError

    found = search(unfinished)
    assert found.ended != "found"
    where = r"NotImplementedError without a message, raised in unfinished \(test_search\.py:\d+\)"
    assert re.fullmatch(where, found.runs[-1].error)


def test_the_exception_of_backward_is_kept():
    def gated(x):
        gate = torch.sigmoid(x.requires_grad_())
        gate *= 2.0
        return gate

    found = search(gated)
    assert (found.ended, found.trains) == ("found", False)
    assert "modified by an inplace operation" in found.backward


def test_the_first_run_has_an_input_of_the_given_shape():
    def shaped(x):
        return x.view(3, 5).sum()

    found = search(shaped, shape=(3, 5))
    assert (found.ended, len(found.runs)) == ("found", 1)


def test_a_run_that_does_not_return_is_interrupted_and_ends_the_search_when_repeated():
    def endless(x):
        while True:
            with suppress(Exception):
                time.sleep(0.01)

    found = search(endless, seconds_a_run=0.2)
    assert (found.ended, len(found.runs)) == ("hang", 2)
    assert found.runs[0].error == "no result within 0.2 s"


def test_a_target_that_needs_a_gpu_ends_the_search_at_once():
    def on_gpu(x):
        raise RuntimeError("Found no NVIDIA driver on your system")

    found = search(on_gpu)
    assert (found.ended, len(found.runs)) == ("gpu", 1)


def test_the_number_of_runs_is_limited():
    def never(x, y):
        raise ValueError("no")

    found = search(never, most=7)
    assert (found.ended, len(found.runs)) == ("runs", 7)


def test_a_forked_child_does_not_continue_the_search():
    def forks(x):
        child = os.fork()
        if child == 0:
            raise ValueError("in the child")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return x

    assert search(forks).ended == "found"


def test_outputs_are_described_by_shape_and_type():
    made = {"loss": torch.ones(()), "parts": [torch.ones(2, 3)] * 5}
    shown = describe(made)
    assert shown.startswith("dict(loss=Tensor() float32, parts=list(Tensor(2, 3) float32, ")
    assert shown.endswith(", ...))")


def test_found_inputs_get_a_larger_batch_if_the_target_runs_with_it():
    found = search(lambda x, mask: x * mask, batch=128)
    assert [each.shape[0] for _, each in found.plan.call] == [128, 128]


def test_inputs_stay_small_if_the_target_takes_no_larger_batch():
    def small(x):
        if x.shape[0] > 2:
            raise ValueError(x.shape)
        return x

    found = search(small, batch=128)
    assert (found.ended, found.plan.call[0][1].shape[0]) == ("found", 2)
