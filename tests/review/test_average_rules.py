"""Cases of ESP260: sums that are divided by another count than theirs, in the forms of scores."""

from __future__ import annotations

import pytest

SCORE = """
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.data import DataLoader
    from tqdm import tqdm

    def score(model, loader, data, criterion, batch_size):
        {before}
        total = 0.0
        for x, y in {over}:
            out = model(x)
            loss = {loss}
            total += {added}
        return {result}
    """


def score(added, result, before="pass", over="loader", loss="criterion(out, y)"):
    return SCORE.format(added=added, result=result, before=before, over=over, loss=loss)


@pytest.mark.parametrize(
    ("added", "result"),
    [
        ("(out.argmax(1) == y).sum().item()", "total / len(loader)"),
        ("out.argmax(1).eq(y).sum().item()", "100.0 * total / len(loader)"),
        ("torch.sum(out.argmax(1) == y).item()", "total / float(len(loader))"),
        ("(out.argmax(1) == y).float().sum()", "(total / len(loader)).item()"),
        ("loss.item() * x.size(0)", "total / len(loader)"),
        ("loss.item() * len(x)", "total / len(loader)"),
        ("criterion(out, y).item() * x.size(0)", "total / len(loader)"),
        ("F.cross_entropy(out, y).item()", "total / len(loader.dataset)"),
    ],
)
def test_a_sum_that_is_divided_by_the_other_count_is_reported(found, added, result):
    assert found("ESP260", score(added, result)) == [f"return {result}"]


@pytest.mark.parametrize(
    "cases",
    [
        {"over": "tqdm(enumerate(loader))", "result": "total / n", "before": "n = len(loader)"},
        {"over": "loader", "result": "total / len(loader)", "before": "loader = DataLoader(data, batch_size=64)"},
        {"over": "tqdm(loader, desc='x')", "result": "total / len(loader)"},
    ],
)
def test_a_loader_in_a_progress_bar_and_a_named_count_are_followed(found, cases):
    over = cases["over"].replace("tqdm(enumerate(loader))", "tqdm(loader)")
    assert len(found("ESP260", score("(out.argmax(1) == y).sum().item()", **{**cases, "over": over}))) == 1


@pytest.mark.parametrize(
    ("added", "result", "more"),
    [
        ("(out.argmax(1) == y).sum().item()", "total / len(loader.dataset)", {}),
        ("(out.argmax(1) == y).sum().item() / len(y)", "total / len(loader)", {}),
        ("(out.argmax(1) == y).float().mean()", "total / len(loader)", {}),
        ("(out.argmax(1) == y).sum().item()", "total / len(loader) / batch_size", {}),
        ("(out.argmax(1) == y).sum().item()", "total / (len(loader) * batch_size)", {}),
        ("(out.argmax(1) == y).sum().item()", "total / len(loader)", {"before": "loader = DataLoader(data)"}),
        (
            "(out.argmax(1) == y).sum().item()",
            "total / len(loader)",
            {"before": "loader = DataLoader(data, batch_size=1)"},
        ),
        ("(out.argmax(1) == y).sum().item()", "total / len(data)", {"over": "data"}),
        ("loss.item()", "total / len(loader)", {}),
        ("loss.item() * x.size(0)", "total / len(loader.dataset)", {}),
        ("loss.item()", "total / len(loader.dataset)", {"loss": 'F.nll_loss(out, y, reduction="sum")'}),
        ("loss.item()", "total / len(loader.dataset)", {"before": 'criterion = nn.MSELoss(reduction="sum")'}),
        ("loss.item()", "total / len(loader.dataset)", {"loss": "elbo(out, y)"}),
        ('F.cross_entropy(out, y, reduction="sum").item()', "total / len(loader.dataset)", {}),
        ("metric(out, y).item()", "total / len(loader.dataset)", {}),
    ],
)
def test_a_sum_that_is_divided_by_its_own_count_is_not_reported(found, added, result, more):
    assert found("ESP260", score(added, result, **more)) == []
