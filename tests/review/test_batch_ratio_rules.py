"""Cases of ESP133, ratios that are computed for each batch and averaged."""

from __future__ import annotations

import pytest

SUMMED = """
    import torch
    from torch.utils.data import DataLoader

    def evaluate(model, loader):
        total, shares = 0.0, []
        for x, y in loader:
            right = model(x).argmax(1) == y
            {keep}
        return {result}

    def main(model, data):
        print(evaluate(model, DataLoader(data, {loader})))
    """


@pytest.mark.parametrize(
    ("keep", "result"),
    [
        ("total += (model(x).argmax(1) == y).float().mean().item()", "total / len(loader)"),
        ("total += right.float().mean()", "total / len(loader)"),
        ("shares.append(right.float().mean())", "torch.stack(shares).mean()"),
        ("shares.append(right.double().mean().item())", "sum(shares) / len(shares)"),
    ],
)
def test_a_mean_of_the_shares_of_batches_is_advice(found, keep, result):
    assert found("ESP133", SUMMED.format(keep=keep, result=result, loader="64")) == [keep]


@pytest.mark.parametrize(
    ("keep", "result", "loader"),
    [
        ("total += right.float().mean()", "total / len(loader)", "64, drop_last=True"),
        ("total += right.float().mean()", "total / len(loader)", "1"),
        ("total += right.sum()", "total / len(loader.dataset)", "64"),
        ("shares.append(right)", "torch.cat(shares).float().mean()", "64"),
    ],
)
def test_shares_of_all_samples_and_of_equal_batches_are_not_reported(found, keep, result, loader):
    assert found("ESP133", SUMMED.format(keep=keep, result=result, loader=loader)) == []


OVERLAP = """
    import torch
    from torch.utils.data import DataLoader

    def counts(prediction, target, n):
        return torch.bincount(target * n + prediction, minlength=n * n).view(n, n)

    def overlap(prediction, target, n):
        table = torch.bincount(target * n + prediction, minlength=n * n).view(n, n)
        both = table.diag()
        return both / (table.sum(0) + table.sum(1) - both).clamp(min=1)

    def evaluate(model, data):
        kept = []
        for x, y in DataLoader(data, 8):
            kept.append({value})
        return torch.stack(kept).{reduced}
    """


@pytest.mark.parametrize(
    ("value", "reduced", "count"),
    [
        ("overlap(model(x).argmax(1), y, 7).cpu()", "nanmean(dim=0)", 1),
        ("overlap(model(x).argmax(1), y, 7)", "mean(0)", 1),
        ("counts(model(x).argmax(1), y, 7)", "sum(0)", 0),
        ("overlap(model(x).argmax(1), y, 7)", "max()", 0),
    ],
)
def test_quotients_of_counts_that_are_averaged_over_batches_are_advice(found, value, reduced, count):
    assert len(found("ESP133", OVERLAP.format(value=value, reduced=reduced))) == count
