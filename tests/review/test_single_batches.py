"""ESP102 on functions that measure one batch and leave loop, mode and gradients to who calls them."""

from __future__ import annotations

import pytest

SOURCE = """
import torch
import torch.nn.functional as F

def {name}(model, x, y):
    {first}
    scores = model(x)
    return {result}

def fit(model, loader, held_out, optimizer):
    for epoch in range(3):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            {each}
        {after}
"""
RESULT = "(scores.argmax(1) == y).float().mean().item()"
LOOP = "for x, y in held_out: total += {name}(model, x, y)"


def source(name="accuracy", first="pass", result=RESULT, each="pass", after=LOOP):
    return SOURCE.format(name=name, first=first, result=result, each=each, after=after.format(name=name))


IN_TRAINING_MODE = {
    "in a loop over held-out data": source(),
    "in a comprehension": source(after="print(sum({name}(model, x, y) for x, y in held_out))"),
    "on one batch": source(name="evaluate", after="print(evaluate(model, *held_out))"),
    "every so many steps": source(name="evaluate", each="if step % 50 == 0: evaluate(model, *held_out)", after="pass"),
    "on held-out data in every step": source(name="validate", each="validate(model, x_val, y_val)", after="pass"),
}
AS_IT_SHOULD_BE = {
    "the function switches": source(first="model.eval()"),
    "the caller switches": source(after="model.eval(); total = {name}(model, x, y)"),
    "on the batch that is trained on": source(each="right += accuracy(model, x, y)", after="pass"),
    "scores that go backward": source(name="predict", result="scores", each="predict(model, x, y)", after="pass"),
    "nothing is measured": source(name="evaluate", result="scores"),
    "it only looks like it": source(name="mix", after="total = mix(model, x, y)"),
    "nobody in sight trains": source().partition("def fit")[0],
}


@pytest.mark.parametrize("code", IN_TRAINING_MODE.values(), ids=IN_TRAINING_MODE)
def test_a_batch_measured_in_training_mode_is_found(found, code):
    assert found("ESP102", code) == ["scores = model(x)"]


@pytest.mark.parametrize("code", AS_IT_SHOULD_BE.values(), ids=AS_IT_SHOULD_BE)
def test_a_batch_measured_as_it_should_be_is_left_alone(found, code):
    assert found("ESP102", code) == []


def test_a_method_is_judged_by_what_calls_it_in_another_file(found):
    trainer = """
        class Trainer:
            def __init__(self, net, optimizer):
                self.net, self.optimizer = net, optimizer

            def step(self, x, y):
                self.optimizer.zero_grad()
                criterion(self.net(x), y).backward()
                self.optimizer.step()

            def evaluate(self, x, y):
                return (self.net(x).argmax(1) == y).sum().item()
        """
    run = """
        from trainer import Trainer

        def main(net, optimizer, loader, held_out):
            trainer = Trainer(net, optimizer)
            net.train()
            for x, y in loader:
                trainer.step(x, y)
            {first}
            print(sum(trainer.evaluate(x, y) for x, y in held_out))
        """
    assert len(found("ESP102", {"trainer.py": trainer, "run.py": run.format(first="pass")})) == 1
    assert found("ESP102", {"trainer.py": trainer, "run.py": run.format(first="net.eval()")}) == []


MADE = """
def make_steps(net, optimizer):
    def train_step(x, y):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

    def eval_step(x, y):
        {first}
        return (net(x).argmax(1) == y).float().mean().item()

    def test_step(x, y):
        return (net(x).argmax(1) == y).float().mean().item()

    return train_step, eval_step, test_step

def main(loader, held_out):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_step, eval_step, test_step = make_steps(model, optimizer)
    for epoch in range(3):
        model.train()
        for x, y in loader:
            train_step(x, y)
        {then}
        print([eval_step(x, y) for x, y in held_out])
        print([test_step(x, y) for x, y in held_out])
"""


@pytest.mark.parametrize(
    ("first", "then", "count"), [("pass", "pass", 2), ("net.eval()", "pass", 0), ("pass", "model.eval()", 0)]
)
def test_steps_made_by_a_function_are_judged_by_the_model_that_it_was_given(found, first, then, count):
    assert len(found("ESP102", MADE.format(first=first, then=then))) == count
