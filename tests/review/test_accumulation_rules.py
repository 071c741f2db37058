"""Cases of ESP224, accumulated gradients of losses that are not divided."""

from __future__ import annotations

import pytest

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review_sources

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import pytorch_lightning as pl
from accelerate import Accelerator


"""

WHOLE = {
    "a function": """
def train(model, loader, criterion, optimizer, accumulation_steps):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
    "a scaler": """
def train(model, train_loader, optimizer, scaler, args):
    for i, (x, y) in enumerate(train_loader):
        with torch.autocast("cuda"):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        if (i + 1) % args.accum == 0 or i + 1 == len(train_loader):
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
""",
    "a method for each batch": """
class Trainer:
    def __init__(self, model, lr, accumulate):
        self.model, self.accumulate = model, accumulate
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def train_batch(self, i, x, y):
        loss = F.mse_loss(self.model(x), y) + 0.1 * self.model.penalty().mean()
        loss.backward()
        if (i + 1) % self.accumulate == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def fit(self, loader):
        for i, (x, y) in enumerate(loader):
            self.train_batch(i, x, y)
""",
    "parts of a batch": """
def step(model, batches, optimizer, grad_accum):
    optimizer.zero_grad()
    for micro in range(grad_accum):
        x, y = next(batches)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
    optimizer.step()
""",
    "Lightning by hand": """
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Linear(3, 3)

    def training_step(self, batch, batch_idx):
        opt = self.optimizers()
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        self.manual_backward(loss)
        if (batch_idx + 1) % 4 == 0:
            opt.step()
            opt.zero_grad()
""",
    "a constant, and an output with its loss": """
def train(model, dataloader, optimizer):
    for step, batch in enumerate(dataloader):
        out = model(**batch)
        out.loss.backward()
        if step % 8 == 7:
            optimizer.step()
            optimizer.zero_grad()
""",
    "a count of steps divided, not the loss": """
def train(model, loader, optimizer, accum_steps, epochs):
    total = epochs * len(loader) / accum_steps
    for i, batch in enumerate(loader):
        loss = model(batch).mean()
        loss.backward()
        if (i + 1) % accum_steps == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return total
""",
}

DIVIDED = {
    "where it is made": ("loss = F.cross_entropy(model(x), y) / n", "loss.backward()", ""),
    "in place": ("loss = F.cross_entropy(model(x), y)\n        loss /= n", "loss.backward()", ""),
    "where it is sent": ("loss = F.cross_entropy(model(x), y)", "(loss / n).backward()", ""),
    "by a factor": ("loss = F.cross_entropy(model(x), y) * (1 / n)", "loss.backward()", ""),
    "by a scale": ("loss = F.cross_entropy(model(x), y) * loss_scale", "loss.backward()", ""),
    "by the tokens": ("loss = F.cross_entropy(model(x), y) / y.numel()", "loss.backward()", ""),
    "a sum": ("loss = F.cross_entropy(model(x), y, reduction='sum')", "loss.backward()", ""),
    "another sum": ("loss = (model(x) - y).pow(2).sum()", "loss.backward()", ""),
    "an accelerator": ("loss = F.cross_entropy(model(x), y)", "accelerator.backward(loss)", ""),
    "gradients": (
        "loss = F.cross_entropy(model(x), y)",
        "loss.backward()",
        "[p.grad.div_(n) for p in model.parameters()]",
    ),
    "a helper": ("loss = mean_loss(model, x, y, n)", "loss.backward()", ""),
    "a helper that takes the sum": ("loss = total_loss(model, x, y)", "loss.backward()", ""),
    "method": ("loss = F.cross_entropy(model(x), y).div(n)", "loss.backward()", ""),
    "a criterion that sums": ("loss = summed(model(x), y)", "loss.backward()", ""),
}
LOOP = """
summed = nn.CrossEntropyLoss(reduction="sum")


def mean_loss(model, x, y, n):
    return F.cross_entropy(model(x), y) / n


def total_loss(model, x, y):
    return F.cross_entropy(model(x), y, reduction="sum")


def train(model, loader, optimizer, accelerator, n, loss_scale):
    for i, (x, y) in enumerate(loader):
        {loss}
        {sent}
        if (i + 1) % n == 0:
            {before}
            optimizer.step()
            optimizer.zero_grad()
"""
OTHERS = {
    "the rate is divided": """
def train(model, loader, lr, n):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr / n)
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(model(x), y).backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
    "gradients are cleared for each batch": """
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if (i + 1) % n == 0:
            optimizer.step()
""",
    "a step for each batch": """
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if (i + 1) % n == 0:
            print(loss.item())
""",
    "a generator that trains now and then": """
def train(G, D, loader, opt_g, opt_d, n_critic):
    for i, x in enumerate(loader):
        opt_d.zero_grad()
        (D(G(x).detach()) - D(x)).mean().backward()
        opt_d.step()
        if i % n_critic == 0:
            opt_g.zero_grad()
            (-D(G(x)).mean()).backward()
            opt_g.step()
""",
    "episodes of a policy": """
def train(policy, env, optimizer, batch_size):
    for episode in range(1000):
        loss = run(policy, env)
        loss.backward()
        if episode % batch_size == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
    "several losses of one batch": """
def train(model, loader, optimizer, heads):
    for x, ys in loader:
        optimizer.zero_grad()
        for head in range(heads):
            F.cross_entropy(model(x, head), ys[head]).backward()
        optimizer.step()
""",
}


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
def test_a_loss_of_several_batches_that_is_not_divided_is_found(found, body):
    assert len(found("ESP224", HEAD + body)) == 1


@pytest.mark.parametrize(("loss", "sent", "before"), DIVIDED.values(), ids=DIVIDED)
def test_losses_that_are_divided_or_summed_are_left_alone(found, loss, sent, before):
    assert found("ESP224", HEAD + LOOP.format(loss=loss, sent=sent, before=before or "pass")) == []


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_loops_that_accumulate_nothing_or_divide_elsewhere_are_left_alone(found, body):
    assert found("ESP224", HEAD + body) == []


def test_a_rate_that_another_file_divides_is_seen(found):
    files = {
        "train.py": HEAD + WHOLE["a scaler"],
        "main.py": "def make(args):\n    return args.lr / args.accum\n",
    }
    assert found("ESP224", files) == []


def test_adam_without_clipping_makes_it_a_suggestion():
    source = HEAD + WHOLE["a method for each batch"].replace("optim.SGD", "optim.AdamW")
    report = review_sources({"train.py": source}, rules=["ESP224"])
    assert [claim.severity for claim in report.claims] == [Severity.SUGGESTION]
