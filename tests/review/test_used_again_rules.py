"""Cases of ESP227 and ESP310: iterators that are used a second time, and graphs that are not."""

from __future__ import annotations

import pytest

EPOCHS = """
    import torch
    from tqdm import tqdm

    def fit(model, train_loader, optimizer, criterion):
        {before}
        for epoch in range(3):
            {inside}
            for batch in {over}:
                {body}
    """


def epochs(before="pass", inside="pass", over="batches", body="step(batch)"):
    return EPOCHS.format(before=before, inside=inside, over=over, body=body)


@pytest.mark.parametrize(
    ("before", "over"),
    [
        ("batches = iter(train_loader)", "batches"),
        ("batches = enumerate(train_loader)", "batches"),
        ("batches = zip(train_loader, other)", "tqdm(batches)"),
        ("batches = iter(train_loader)", "enumerate(batches)"),
    ],
)
def test_an_iterator_of_batches_that_each_epoch_goes_over_is_reported(found, before, over):
    assert len(found("ESP227", epochs(before=before, over=over))) == 1


@pytest.mark.parametrize(
    "cases",
    [
        {"inside": "batches = iter(train_loader)"},
        {"before": "batches = tqdm(train_loader)"},
        {"before": "batches = list(train_loader)"},
        {"before": "batches = iter(train_loader)", "body": "break"},
        {"before": "batches = iter(train_loader)", "inside": "batches = iter(train_loader)"},
        {"before": "batches = enumerate(names)"},
    ],
)
def test_batches_that_are_made_again_or_left_over_are_not_reported(found, cases):
    assert found("ESP227", epochs(**cases)) == []


RETAINED = """
    import torch

    def fit(model, loader, optimizer, criterion, x0):
        state = None
        {before}
        for x, y in loader:
            optimizer.zero_grad()
            {forward}
            {sent}
            optimizer.step()
    """
SENT = "loss.backward(retain_graph=True)"


def retained(before="pass", forward="loss = criterion(model(x), y)", sent=SENT):
    return RETAINED.format(before=before, forward=forward, sent=sent)


@pytest.mark.parametrize(
    "cases",
    [
        {},
        {"forward": "out = model(x)\n            loss = criterion(out, y) + out.pow(2).mean()"},
        {"forward": "loss = criterion(model(x.float()), y) / 4"},
        {"sent": "(criterion(model(x), y) * 2).backward(retain_graph=True)", "forward": "pass"},
    ],
)
def test_a_graph_that_is_kept_for_nothing_is_reported(found, cases):
    assert len(found("ESP310", retained(**cases))) == 1


@pytest.mark.parametrize(
    "cases",
    [
        {"sent": "loss.backward()"},
        {"sent": SENT + "\n            loss.sum().backward()"},
        {"sent": SENT + "\n            g = torch.autograd.grad(loss, x)"},
        {"before": "codes = model(x0)", "forward": "loss = criterion(model(x) + codes, y)"},
        {"forward": "out, state = model(x, state)\n            loss = criterion(out, y)"},
        {"forward": "loss = criterion(x, y)"},
    ],
)
def test_a_graph_that_is_used_again_is_not_reported(found, cases):
    assert found("ESP310", retained(**cases)) == []
