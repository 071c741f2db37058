"""Cases of ESP247, ESP119 and ESP120: best scores, training steps and learning rates that do not do what they say."""

from __future__ import annotations

import pytest

BEST = """
    import copy
    import math
    import numpy as np
    import torch

    def fit(model, epochs, path):
        {start}
        for epoch in range(epochs):
            {inside}
            train(model)
            score = validate(model)
            {test}
    """
SAVE = "torch.save(model.state_dict(), path)"


@pytest.mark.parametrize(
    ("start", "inside", "test"),
    [
        ('best = float("inf")', "pass", f"if score < best: {SAVE}"),
        ("best_acc = 0.0", "pass", f"if score > best_acc: {SAVE}"),
        ("min_loss, kept = np.inf, None", "pass", "if score < min_loss: kept = copy.deepcopy(model)"),
        ("best = -1", "pass", f"is_best = score > best\n            if is_best: {SAVE}"),
        ("limit = math.inf", "pass", f"if limit >= score: {SAVE}"),
        ('best = float("inf")', "pass", f"if score > best:\n                best = score\n                {SAVE}"),
        ("best = -np.inf", "pass", f"if score < best:\n                best = score; {SAVE}"),
        ("pass", 'best = float("inf")', f"if score < best:\n                best = score\n                {SAVE}"),
    ],
)
def test_a_best_score_that_is_not_kept_is_reported(found, start, inside, test):
    assert len(found("ESP247", BEST.format(start=start, inside=inside, test=test))) == 1


@pytest.mark.parametrize(
    ("start", "inside", "test"),
    [
        ('best = float("inf")', "pass", f"if score < best:\n                best = score\n                {SAVE}"),
        ("best_acc = 0.0", "pass", f"if score > best_acc: {SAVE}\n            best_acc = max(best_acc, score)"),
        ("threshold = 0.9", "pass", f"if score > threshold: {SAVE}"),
        ("best = 0.0", "pass", "if score > best: print(score)"),
        ("best = load(path)", "pass", f"if score > best: {SAVE}"),
        ("best = 0.0", "best = history(best)", f"if score > best: {SAVE}"),
        ("best = None", "pass", f"if best is None or score > best: best = score; {SAVE}"),
    ],
)
def test_a_best_score_that_is_kept_and_a_threshold_are_not_reported(found, start, inside, test):
    assert found("ESP247", BEST.format(start=start, inside=inside, test=test)) == []


def test_a_best_score_of_the_object_is_looked_for_in_its_class(found):
    source = """
        import torch

        class Trainer:
            def __init__(self):
                self.best_loss = 1e10

            def fit(self, model):
                for epoch in range(9):
                    loss = validate(model)
                    if loss < self.best_loss:
                        torch.save(model.state_dict(), "best.pt")
        """
    assert found("ESP247", source) == ["if loss < self.best_loss:"]
    assert found("ESP247", source + "\n            def on_end(self, v):\n                self.best_loss = v\n") == []


STEP = """
    import pytorch_lightning as pl

    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            {init}

        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = self.criterion(self(x), y)
            self.log("loss", loss)
            {end}
    """


@pytest.mark.parametrize(
    "end", ["pass", "return", "return loss.item()", "return {'loss': loss.detach()}", "return None"]
)
def test_a_training_step_without_a_loss_is_reported(found, end):
    assert len(found("ESP119", STEP.format(init="pass", end=end))) == 1


@pytest.mark.parametrize(
    ("init", "end"),
    [
        ("pass", "return loss"),
        ("pass", "return {'loss': loss, 'n': loss.detach()}"),
        ("self.automatic_optimization = False", "pass"),
        ("pass", "self.manual_backward(loss)"),
        ("pass", "if batch_idx: return loss"),
        ("pass", "return self.shared(batch)"),
    ],
)
def test_other_training_steps_are_not_reported(found, init, end):
    assert found("ESP119", STEP.format(init=init, end=end)) == []


LAMBDA = """
    import torch
    from torch.optim.lr_scheduler import LambdaLR

    def fit(model, args, epochs):
        opt = torch.optim.Adam(model.parameters(), lr={rate})
        def decay(epoch):
            rate = args.lr * 0.5 ** epoch
            return rate
        sched = LambdaLR(opt, {function})
        return sched
    """


@pytest.mark.parametrize(
    ("rate", "function"),
    [
        ("0.01", "lambda e: 0.01 * 0.95**e"),
        ("args.lr", "lambda e: args.lr * (1 - e / epochs)"),
        ("args.lr", "lr_lambda=lambda e: args.lr if e < 5 else args.lr * 0.1"),
        ("args.lr", "decay"),
        ("args.lr", "[lambda e: 0.5**e * args.lr]"),
        ("args.lr", "lambda e: max(args.lr * 0.9**e, 1e-6)"),
    ],
)
def test_a_function_that_returns_a_learning_rate_is_reported(found, rate, function):
    assert len(found("ESP120", LAMBDA.format(rate=rate, function=function))) == 1


@pytest.mark.parametrize(
    ("rate", "function"),
    [
        ("0.01", "lambda e: 0.95**e"),
        ("1.0", "lambda e: 1.0 * 0.95**e"),
        ("args.lr", "lambda e: max(0.9**e, 1e-6 / args.lr)"),
        ("0.1", "lambda e: 0.1 ** (e // 30)"),
        ("args.lr", "lambda e: args.gamma * e"),
        ("1.0", "decay"),
    ],
)
def test_a_function_that_returns_a_factor_is_not_reported(found, rate, function):
    assert found("ESP120", LAMBDA.format(rate=rate, function=function)) == []
