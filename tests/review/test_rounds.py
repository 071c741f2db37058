"""ESP101 on steps that a loop repeats from afar: through helpers, as values, and made and handed back."""

from __future__ import annotations

import pytest

HELPER = """
import torch

def update(model, optimizer, x, y):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()

def process(model, optimizer, x, y, log):
    update(model, optimizer, x, y)
    {between}

def main(model, loader):
    {made}
    for x, y in loader:
        {first}
        process(model, optimizer, x, y, [])
"""
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
MADE = """
import torch

def make_step():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        {first}
        loss = model(x).mean()
        loss.backward()
        optimizer.step()

    return {returned}
"""
HANDED = """
def step(batch):
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()

def repeat(step_fn, optimizer, loader):
    for batch in loader:
        {first}
        step_fn(batch)

repeat({handed}, optimizer, loader)
"""
WRONG = {
    "through two functions": HELPER.format(between="log.append(x)", made=OPTIMIZER, first="pass"),
    "made and handed back": MADE.format(first="pass", returned="step"),
    "made, compiled and handed back": MADE.format(first="pass", returned="torch.compile(step)"),
    "made with its model": MADE.format(first="pass", returned="model, step"),
    "handed to the loop": HANDED.format(first="pass", handed="step"),
}
RIGHT = {
    "cleared by the function between": HELPER.format(between="optimizer.zero_grad()", made=OPTIMIZER, first="pass"),
    "cleared in the loop": HELPER.format(between="pass", made=OPTIMIZER, first="optimizer.zero_grad(set_to_none=True)"),
    "a new optimizer in every round": HELPER.format(between="pass", made="pass", first=OPTIMIZER),
    "cleared by the model": MADE.format(first="model.zero_grad()", returned="step"),
    "the caller has the optimizer": MADE.format(first="pass", returned="step, optimizer"),
    "handed to a loop that clears": HANDED.format(first="optimizer.zero_grad()", handed="step"),
    "nobody repeats it": HANDED.format(first="pass", handed="print"),
}


@pytest.mark.parametrize("source", WRONG.values(), ids=WRONG)
def test_a_step_that_is_repeated_from_afar_and_never_clears_is_found(found, source):
    assert found("ESP101", source) == ["loss.backward()"]


@pytest.mark.parametrize("source", RIGHT.values(), ids=RIGHT)
def test_a_step_that_is_cleared_anywhere_on_the_way_is_left_alone(found, source):
    assert found("ESP101", source) == []


def test_a_step_made_with_the_optimizer_of_its_caller_is_judged_by_its_loop(found):
    source = """
        def make_step(model, optimizer):
            def step(x):
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
            return step

        def main(model, optimizer, loader):
            step = make_step(model, optimizer)
            for x in loader:
                {first}
                step(x)
        """
    assert found("ESP101", source.format(first="pass")) == ["loss.backward()"]
    assert found("ESP101", source.format(first="optimizer.zero_grad()")) == []
    assert found("ESP101", source.partition("def main")[0]) == []


ORDER = """
def train(model, optimizer, loader):
    {before}
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        {first}
        {second}
"""


def test_a_step_between_clearing_and_the_backward_is_found(found):
    wrong = ORDER.format(before="pass", first="optimizer.step()", second="loss.backward()")
    assert found("ESP101", wrong) == ["optimizer.zero_grad()"]


def test_a_step_function_that_sends_backward_last_is_found(found):
    source = """
        def train_step(model, optimizer, x, y):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            optimizer.step()
            loss.backward()
        """
    assert found("ESP101", source) == ["optimizer.zero_grad()"]


def test_a_first_step_that_only_makes_the_state_of_the_optimizer_is_left_alone(found):
    before = "optimizer.zero_grad(); optimizer.step()"
    assert found("ESP101", ORDER.format(before=before, first="loss.backward()", second="optimizer.step()")) == []
