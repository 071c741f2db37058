"""Tests of the query about gradient accumulation."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

SUBJECT = InspectionSubject(("gradient accumulation",))
MUST, SHOULD, FINE = Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK, Assessment.FINE
LOOP = """import torch


def fit(model, loader, optimizer, scheduler, n):
    for i, x in enumerate(loader):
        {first}
        loss.backward()
        {before}
        if (i + 1) % n == 0{last}:
            optimizer.step()
            optimizer.zero_grad()
"""


def found(source, *assessments):
    done = inspect_sources({"train.py": source}, SUBJECT, names=["gradient-accumulation"])
    assert not done.results[0].problem
    return [fact for fact in done.results[0].facts if fact.assessment in assessments]


def loop(first="loss = model(x) / n", before="pass", last=" or i + 1 == len(loader)"):
    return LOOP.format(first=first, before=before, last=last)


def test_a_loop_that_divides_and_finishes_its_last_window_is_fine():
    assert not found(loop(), MUST, SHOULD)
    assert found(loop(), FINE)


@pytest.mark.parametrize(
    "first",
    ["loss = model(x)\n        loss = loss / n", "loss = model(x)\n        loss /= n", "loss = (1 / n) * model(x)"],
)
def test_other_ways_to_divide_are_seen(first):
    assert not found(loop(first), MUST, SHOULD)


def test_a_loss_that_is_not_divided_must_change():
    assert [each.line for each in found(loop("loss = model(x)"), MUST)] == [7]


def test_a_window_that_the_epoch_cuts_off_should_be_checked():
    facts = found(loop(last=""), SHOULD)
    assert facts[0].remedy == "write `if (i + 1) % n == 0 or i + 1 == len(loader):`"
    assert not found(loop(last="") + "    optimizer.step()\n", SHOULD)


EPOCHS = """
def fit(model, loader, optimizer, n):
    {before}
    for epoch in range(3):
        {inside}
        for i, x in enumerate(loader):
            loss = model(x) / n
            loss.backward()
            if (i + 1) % n == 0:
                optimizer.step()
                optimizer.zero_grad()
        {after}
"""
CLEAR = "optimizer.zero_grad()"


@pytest.mark.parametrize(
    ("lines", "fate"),
    [
        ({}, "mix into the next epoch"),
        ({"before": CLEAR}, "mix into the next epoch"),
        ({"inside": CLEAR}, "are lost"),
        ({"after": CLEAR}, "are lost"),
        ({"inside": f"if epoch: {CLEAR}"}, "mix into the next epoch"),
    ],
)
def test_gradients_left_over_are_lost_if_they_are_cleared_before_the_next_epoch(lines, fate):
    (fact,) = found(EPOCHS.format(**{"before": "pass", "inside": "pass", "after": "pass", **lines}), SHOULD)
    assert fact.text.endswith(f"their gradients {fate}")


def test_gradients_left_over_are_lost_if_each_call_begins_by_clearing():
    cleared = loop(last="").replace("    for i", "    optimizer.zero_grad()\n    for i", 1)
    assert found(cleared, SHOULD)[0].text.endswith("their gradients are lost")


@pytest.mark.parametrize("counted", ["enumerate(loader, start=1)", "enumerate(loader, 1)"])
def test_a_counter_from_one_steps_after_a_whole_window(counted):
    source = loop().replace("enumerate(loader)", counted)
    whole = source.replace("(i + 1) % n == 0", "i % n == 0")
    assert not found(whole.replace("i + 1 ==", "i =="), MUST, SHOULD)
    (cut,) = found(whole.replace(" or i + 1 == len(loader)", ""), SHOULD)
    assert cut.remedy == "write `if i % n == 0 or i == len(loader):`"


def test_a_counter_from_zero_that_steps_at_once_should_be_checked():
    early = loop(last="").replace("(i + 1) % n == 0", "i % n == 0")
    assert any("counts from 0" in each.text for each in found(early, SHOULD))


@pytest.mark.parametrize(
    ("before", "assessment"),
    [
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), 1)", MUST),
        ("scheduler.step()", SHOULD),
    ],
)
def test_what_belongs_to_the_step_is_reported_if_it_runs_for_every_batch(before, assessment):
    assert [each.line for each in found(loop(before=before), assessment)] == [8]


def test_gradients_that_are_cleared_for_every_batch_must_change():
    source = loop(first="optimizer.zero_grad()\n        loss = model(x) / n").replace(
        "            optimizer.zero_grad()\n", ""
    )
    assert [each.line for each in found(source, MUST)] == [6]


def test_a_loop_that_accumulates_nothing_is_told_what_to_change():
    plain = "def fit(model, loader, optimizer):\n    for step, x in enumerate(loader):\n        optimizer.zero_grad()\n"
    plain += "        loss = model(x)\n        loss.backward()\n        optimizer.step()\n"
    facts = found(plain, SHOULD)
    assert [fact.line for fact in facts] == [3, 5, 6]
    assert "(step + 1) % n == 0 or step + 1 == len(loader)" in facts[2].remedy


def test_a_window_without_a_remainder_is_not_called_a_plain_loop():
    source = loop().replace("(i + 1) % n == 0 or i + 1 == len(loader)", "i - last >= accumulate")
    assert not [each for each in found(source, MUST) if "nothing is accumulated" in each.text]
