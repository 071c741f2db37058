"""Tests that one loop is told of once, and of what in a loop is no cost of every step."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.review.conftest import reviewed

STEP = """
import torch

def fit(model, loader, optimizer, criterion):
    history, total = [], 0.0
    for i, (x, y) in enumerate(loader):
        output = model(x.cuda())
        loss = criterion(output, y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{body}
"""


def claims_of(body, rule="ESP305"):
    return reviewed(STEP.format(body=indent(dedent(body), " " * 8)), rule).claims


def test_the_fetches_of_one_loop_are_told_of_once_with_their_number():
    claims = claims_of("total += loss.item()\nhistory.append(output.max().item())\nprint(float(loss))")
    assert [claim.excerpt.strip() for claim in claims] == ["total += loss.item()"]
    assert "2 more lines do in this loop" in claims[0].message


def test_what_is_handed_back_is_another_matter_than_what_is_fetched():
    claims = claims_of("total += loss.item()\ntorch.cuda.empty_cache()")
    assert len(claims) == 2


def test_two_loops_are_two_matters():
    source = STEP.format(body="        total += loss.item()")
    both = source + source.replace("def fit", "def tune").replace("import torch\n", "")
    assert len(reviewed(both, "ESP305").claims) == 2


@pytest.mark.parametrize("test", ["if torch.isnan(loss).item(): break", "assert torch.isfinite(loss).all()"])
def test_a_test_for_nan_in_every_step_is_a_suggestion(test):
    assert [str(claim.severity) for claim in claims_of(test)] == ["suggestion"]


@pytest.mark.parametrize(
    "body",
    [
        "if i > 10:\n    raise ValueError(loss.item())",
        "if bad:\n    print(loss.item())\n    break",
        "rate = config.rate.item()",
        "if not ready():\n    time.sleep(1)\ntotal += loss.item()",
        "if i % 10 == 0:\n    score = model(x)\nprint(score.mean().item())",
        "kept = self.scores['a']\ntotal += kept.min().item()",
    ],
)
def test_what_is_fetched_once_or_was_there_before_is_left_alone(body):
    assert claims_of(body) == ()


@pytest.mark.parametrize("given", ["int(lengths.max().item())", "lengths.min().item() == 0"])
def test_a_function_that_answers_by_a_number_is_left_alone(given):
    source = STEP.format(body="        n = longest(output)")
    helper = f"\ndef longest(lengths){' -> int' if given.startswith('int') else ''}:\n    return {given}\n"
    assert reviewed(source + helper, "ESP305").claims == ()


GROWING = """
import gc
import numpy as np
import torch

def gather(model, loader, parts):
    first, second = torch.empty(0), torch.empty(0)
    for x in loader:
{body}
    return first, second
"""


def grown(body):
    return reviewed(GROWING.format(body=indent(dedent(body), " " * 8)), "ESP401").claims


def test_tensors_that_grow_in_one_loop_are_told_of_each_at_its_own_line():
    claims = grown("first = torch.cat([first, model(x)])\nsecond = torch.cat((second, x))")
    assert [claim.message.partition(" is ")[0] for claim in claims] == ["'first'", "'second'"]


def test_a_tensor_that_grows_on_two_ways_is_told_of_once():
    body = "if x:\n    first = torch.cat([first, model(x)])\nelse:\n    first = torch.cat([first, x])"
    assert len(grown(body)) == 1


def test_an_array_that_grows_by_one_number_is_a_suggestion():
    assert [str(claim.severity) for claim in grown("first = np.append(first, model(x).mean())")] == ["suggestion"]
    assert [str(claim.severity) for claim in grown("first = np.append(first, model(x).numpy())")] == ["warning"]


@pytest.mark.parametrize(
    "body",
    [
        "first = torch.cat([first, parts[x]])\nparts[x] = None",
        "first = torch.cat([first, parts[x]])\ngc.collect()",
        "x['boxes'] = torch.cat([x['boxes'], x.pop('angles')])",
        "row = parts[x]\nrow.boxes = torch.cat([row.boxes, model(x)])",
        "first = torch.cat([first, x(second)])",
    ],
)
def test_what_frees_its_parts_or_is_another_thing_in_each_round_is_left_alone(body):
    assert grown(body) == ()


def test_what_grows_at_the_start_or_is_read_by_a_method_of_the_loop_is_left_alone():
    source = """
    import torch

    class Search:
        def __init__(self, sizes):
            self.offsets = torch.zeros(1)
            for size in sizes:
                self.offsets = torch.cat([self.offsets, torch.tensor([size])])

        def run(self, n):
            for _ in range(n):
                point = self.propose()
                self.points = torch.cat([self.points, point])

        def propose(self):
            return self.points.mean(0, keepdim=True)
    """
    assert reviewed(source, "ESP401").claims == ()


def test_a_test_for_nan_is_another_matter_than_a_fetch():
    claims = claims_of("if not torch.isfinite(loss):\n    continue\ntotal += loss.item()")
    assert [str(claim.severity) for claim in claims] == ["suggestion", "warning"]


def test_an_epoch_that_uses_up_what_is_left_over_is_no_step():
    source = """
    import torch

    def fit(model, loader, optimizer, epochs):
        for epoch in range(epochs):
            total, waiting = torch.zeros((), device="cuda"), 0
            for x in loader:
                loss = model(x.cuda())
                loss.backward()
                total += loss.detach()
                waiting += 1
                if waiting < 4:
                    continue
                optimizer.step()
                waiting = 0
            if waiting:
                optimizer.step()
            print(epoch, total.item())
    """
    assert not reviewed(source, "ESP305").claims
    assert reviewed(source.replace("loss.detach()", "loss.item()"), "ESP305").claims


def test_what_a_model_gives_back_is_no_part_of_the_object_that_holds_it():
    source = """
    import torch

    class Trainer:
        def fit(self, loader):
            for batch in loader:
                loss = self.model(**batch).loss
                loss.backward()
                self.optimizer.step()
                self.meter.update({value})
    """
    assert reviewed(source.replace("{value}", "loss.item()"), "ESP305").claims
    kept = source.replace("{value}", "kept.item()").replace("loss.backward()", "kept = self.kept\n{0}loss.backward()")
    assert not reviewed(kept.replace("{0}", " " * 16), "ESP305").claims


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("logger.info('%d %s', i, loss)", ["ESP305"]),
        ("logger.info('%d %s %s %d', i, loss, scheduler.get_last_lr()[0], skipped)", ["ESP305", "ESP411"]),
        ("print(i, scheduler.get_last_lr())", ["ESP411"]),
    ],
)
def test_a_line_that_says_more_than_the_loss_is_a_log(line, rules):
    assert sorted(claim.rule for rule in ("ESP305", "ESP411") for claim in claims_of(line, rule)) == rules


SAVING = """
import torch

def save(model, path):
    {guard}torch.save(model.state_dict(), path)

def fit(model, loader, optimizer, criterion):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        {line}
"""


@pytest.mark.parametrize(
    ("guard", "line", "count"),
    [
        ("", "save(model, 'last.pt')", 1),
        ("if is_main(): ", "save(model, 'last.pt')", 0),
        ("", "if i % 100 == 0: save(model, 'last.pt')", 0),
    ],
)
def test_a_helper_that_saves_in_every_call_saves_in_every_step(guard, line, count):
    assert len(reviewed(SAVING.format(guard=guard, line=line), "ESP411").claims) == count


def test_a_test_of_gradients_for_nan_waits_as_well():
    assert claims_of("if any(torch.isnan(p.grad).any() for p in model.parameters()):\n    continue")
    assert not claims_of("if i % 50 == 0:\n    assert not torch.isnan(p.grad).any()")
