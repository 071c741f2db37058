"""Cases of ESP260: sums that are divided by the number of something else."""

from __future__ import annotations

import pytest

EVALUATION = """
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

def evaluate(model, loader, device):
    criterion = nn.CrossEntropyLoss()
    total, steps, seen = 0.0, 0, 0
    for i, (x, y) in enumerate(tqdm(loader)):
        out = model(x)
        n = y.size(0)
        loss = criterion(out, y)
        total += {added}
        steps += 1
        seen += n
    return {result}
"""


@pytest.mark.parametrize(
    ("added", "result"),
    [
        ("loss.item() * x.size(0)", "total / len(loader)"),
        ("loss.item() * n", "total / steps"),
        ("len(x) * float(loss)", "100 * total / len(loader)"),
        ("(out.argmax(1) == y).sum().item()", "100.0 * total / len(loader)"),
        ("out.argmax(1).eq(y).sum()", "total.item() / len(loader)"),
        ("torch.sum(out.argmax(1) == y).item()", "total / len(loader)"),
        ("loss.item()", "total / len(loader.dataset)"),
        ("F.nll_loss(out, y).item()", "total / len(loader.dataset)"),
    ],
)
def test_sums_of_samples_and_of_batches_are_not_divided_by_each_others_count(added, result, found):
    assert len(found("ESP260", EVALUATION.format(added=added, result=result))) == 1


@pytest.mark.parametrize(
    ("added", "result"),
    [
        ("loss.item() * x.size(0)", "total / len(loader.dataset)"),
        ("loss.item() * n", "total / seen"),
        ("loss.item()", "total / len(loader)"),
        ("loss.item()", "total / steps"),
        ("(out.argmax(1) == y).float().mean().item()", "total / len(loader)"),
        ("(out.argmax(1) == y).sum().item() / n", "total / len(loader)"),
        ("(out.argmax(1) == y).sum().item()", "total / len(loader) / n"),
        ("(out.argmax(1) == y).sum().item()", "total / (len(loader) * n)"),
        ("F.nll_loss(out, y, reduction='sum').item()", "total / len(loader.dataset)"),
        ("(out == 0).sum().item()", "total / len(loader)"),
        ("model.loss(x, y).item()", "total / len(loader.dataset)"),
    ],
)
def test_averages_by_their_own_count_are_right(added, result, found):
    assert found("ESP260", EVALUATION.format(added=added, result=result)) == []


def test_an_attribute_divided_after_the_loop_is_reported(found):
    source = """
    import torch

    class Trainer:
        def validate(self):
            self.correct = 0
            for x, y in self.val_loader:
                self.correct += (self.model(x).argmax(-1) == y).sum().item()
            self.correct /= len(self.val_loader)
            return self.correct
    """
    assert found("ESP260", source) == ["self.correct /= len(self.val_loader)"]


@pytest.mark.parametrize("size", ["", ", batch_size=1", ", 1"])
def test_a_loader_of_single_samples_counts_samples(size, found):
    source = f"""
    import torch
    from torch.utils.data import DataLoader

    def evaluate(model, data):
        loader = DataLoader(data{size})
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(-1) == y).sum().item()
        return correct / len(loader)
    """
    assert found("ESP260", source) == []
    assert len(found("ESP260", source.replace(f"data{size})", "data, batch_size=8)"))) == 1


@pytest.mark.parametrize("count", ["(pred == y).sum()", "(pred == y).sum().item()", "pred.eq(y).sum().item()"])
def test_right_answers_divided_as_integers_are_reported(count, found):
    source = "import torch\n\ndef accuracy(pred, y):\n    return {} {} len(y)\n"
    assert found("ESP260", source.format(count, "//")) == [f"return {count} // len(y)"]
    assert found("ESP260", source.format(count, "/")) == []
    assert found("ESP260", source.format("(pred > 0).sum()", "//")) == []
