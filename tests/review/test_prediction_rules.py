"""Cases of ESP126, ESP265, ESP266 and ESP267: predictions, thresholds and the axis of the classes."""

from __future__ import annotations

import pytest

BINARY = """
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        return self.fc(x)

def evaluate(net, loader):
    crit = nn.BCEWithLogitsLoss()
    for x, y in loader:
        out = net(x).squeeze(1)
        loss = {loss}
        guess = {guess}
"""


@pytest.mark.parametrize(
    "guess", ["out > 0.5", "(out >= 0.5).float()", "torch.round(out)", "out.round()", "out.gt(0.5)"]
)
@pytest.mark.parametrize("loss", ["crit(out, y)", "F.binary_cross_entropy_with_logits(out.float(), y)"])
def test_raw_scores_compared_with_half_are_reported(guess, loss, found):
    assert found("ESP265", BINARY.format(guess=guess, loss=loss)) == [f"guess = {guess}"]


@pytest.mark.parametrize("guess", ["out > 0", "torch.sigmoid(out) > 0.5", "out.sigmoid().round()", "y > 0.5"])
def test_probabilities_and_a_threshold_of_zero_are_right(guess, found):
    assert found("ESP265", BINARY.format(guess=guess, loss="crit(out, y)")) == []


def test_scores_made_probabilities_in_between_are_right(found):
    source = BINARY.format(loss="crit(out, y)\n        out = torch.sigmoid(out)", guess="out > 0.5")
    assert found("ESP265", source) == []
    assert found("ESP265", BINARY.format(loss="F.binary_cross_entropy(out, y)", guess="out > 0.5")) == []


def test_a_threshold_in_another_file_than_the_loss_is_reported(found):
    net = """
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 1)

        def forward(self, x):
            return {out}
    """
    train = """
    from torch import nn
    from net import Net

    def train(loader):
        net, crit = Net(), nn.BCEWithLogitsLoss()
        model = Net()
        for x, y in loader:
            crit(model(x), y).backward()
    """
    predict = """
    import torch
    from net import Net

    def predict(x):
        model = Net()
        return model(x) > 0.5
    """
    files = {"net.py": net.format(out="self.fc(x)"), "train.py": train, "predict.py": predict}
    assert found("ESP265", files) == ["return model(x) > 0.5"]
    assert found("ESP265", {**files, "net.py": net.format(out="self.fc(x).sigmoid()")}) == []


ACCURACY = """
import torch
import torch.nn.functional as F

def accuracy(model, loader, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = {out}
        {line}
        hits = (guess == y).sum()
"""


@pytest.mark.parametrize(
    ("out", "line"),
    [
        ("model(x)", "guess = out.argmax(dim=0)"),
        ("model(x)", "guess = torch.argmax(out, 0)"),
        ("model(x)", "_, guess = torch.max(out.detach(), 0)"),
        ("F.softmax(model(x), dim=1)", "guess = out.argmax(0)"),
        ("model(x)", "guess = out.max(dim=0)[1]"),
    ],
)
def test_the_best_class_along_the_batch_is_reported(out, line, found):
    assert found("ESP266", ACCURACY.format(out=out, line=line)) == [line]


@pytest.mark.parametrize(
    ("out", "line"),
    [
        ("model(x)", "guess = out.argmax(dim=1)"),
        ("model(x)", "guess = out[0].argmax(0)"),
        ("model(x[0])", "guess = out.argmax(0)"),
        ("model(x).transpose(0, 1)", "guess = out.argmax(0)"),
        ("torch.stack([model(x), model(x)])", "guess = out.max(0)[0].argmax(1)"),
    ],
)
def test_other_axes_and_single_samples_are_right(out, line, found):
    assert found("ESP266", ACCURACY.format(out=out, line=line)) == []


SEQUENCE = """
import torch
from torch import nn
import torch.nn.functional as F

class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(100, 16)
        self.out = nn.Linear(16, 100)

    def forward(self, x):
        return self.out(self.emb(x))

def step(ids, other):
    model, crit = LM(), nn.CrossEntropyLoss(ignore_index=0)
    logits = model({given})
    return {loss}
"""


@pytest.mark.parametrize(
    ("given", "loss"),
    [
        ("ids", "F.cross_entropy(logits[:, :-1], ids[:, 1:])"),
        ("ids", "crit(logits[:, :-1, :].contiguous(), ids[:, 1:].contiguous())"),
        ("ids[:, :-1]", "F.cross_entropy(logits, ids[:, 1:])"),
        ("ids[:, :-1]", "crit(logits, ids[:, 1:].long())"),
    ],
)
def test_classes_on_the_last_of_three_axes_are_reported(given, loss, found):
    assert found("ESP126", SEQUENCE.format(given=given, loss=loss)) == [f"return {loss}"]


@pytest.mark.parametrize(
    ("given", "loss"),
    [
        ("ids", "F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:])"),
        ("ids[:, :-1]", "crit(logits.permute(0, 2, 1), ids[:, 1:])"),
        ("ids[:, :-1]", "crit(logits.reshape(-1, 100), ids[:, 1:].reshape(-1))"),
        ("ids", "crit(logits, other)"),
        ("ids", "F.cross_entropy(logits[:, -1], other[:, 0])"),
    ],
)
def test_flattened_and_turned_scores_are_right(given, loss, found):
    assert found("ESP126", SEQUENCE.format(given=given, loss=loss)) == []


SHIFTED = """
from transformers import {imported}

model = {imported}.from_pretrained("x")

def step(ids, batch):
    {line}
    return model({given})
"""


@pytest.mark.parametrize(
    ("imported", "line", "given"),
    [
        ("AutoModelForCausalLM", "pass", "input_ids=ids[:, :-1], labels=ids[:, 1:]"),
        ("GPT2LMHeadModel", "labels = ids[:, 1:].contiguous()", "ids[:, :-1], labels=labels"),
        ("LlamaForCausalLM", "x, y = ids, ids", "ids[..., :-1], labels=ids[..., 1:].clone()"),
    ],
)
def test_shifted_labels_for_a_model_that_shifts_are_reported(imported, line, given, found):
    assert len(found("ESP267", SHIFTED.format(imported=imported, line=line, given=given))) == 1


def test_a_model_that_is_handed_in_is_taken_for_the_causal_one_of_the_project(found):
    files = {
        "main.py": "from transformers import AutoModelForCausalLM\n",
        "step.py": "def step(model, ids):\n    return model(input_ids=ids[:, :-1], labels=ids[:, 1:]).loss\n",
    }
    assert len(found("ESP267", files)) == 1
    assert found("ESP267", {**files, "main.py": "from transformers import AutoModelForSeq2SeqLM\n"}) == []


@pytest.mark.parametrize(
    ("imported", "given"),
    [
        ("AutoModelForCausalLM", "input_ids=ids, labels=ids"),
        ("AutoModelForSeq2SeqLM", "input_ids=ids, labels=ids[:, 1:]"),
        ("AutoModelForCausalLM", "input_ids=ids, labels=batch['labels']"),
        ("AutoModelForCausalLM", "input_ids=ids[:, :8], labels=ids[:, :8]"),
    ],
)
def test_labels_like_the_inputs_and_other_models_are_right(imported, given, found):
    assert found("ESP267", SHIFTED.format(imported=imported, line="pass", given=given)) == []


DATA = """
import torch

class Blocks(torch.utils.data.Dataset):
    def __getitem__(self, i):
        chunk = self.tokens[i : i + 9]
        {returned}
"""
ITEMS = 'return {"input_ids": chunk[:-1], "labels": chunk[1:]}'


@pytest.mark.parametrize(
    ("returned", "line", "given", "count"),
    [
        (ITEMS, "pass", 'input_ids=batch["input_ids"], labels=batch["labels"]', 1),
        (ITEMS, "pass", 'batch["input_ids"].cuda(), labels=batch["labels"].cuda()', 1),
        (ITEMS, "pass", "**batch", 1),
        (
            "return dict(x=torch.tensor(chunk[:-1]), y=torch.tensor(chunk[1:]))",
            "pass",
            "batch['x'], labels=batch['y']",
            1,
        ),
        ("return chunk[:-1], chunk[1:]", "for x, y in batch:", "x, labels=y", 1),
        ('return {"input_ids": chunk, "labels": chunk}', "pass", "**batch", 0),
        ('return {"input_ids": chunk[1:], "labels": chunk[1:]}', "pass", "**batch", 0),
        ('return {"input_ids": chunk[:-1], "labels": pick(chunk)}', "pass", "**batch", 0),
        ("return chunk, chunk", "for x, y in batch:", "x, labels=y", 0),
        ("return chunk[:-1], chunk[1:]", "for x, y in batch:", "x, labels=x", 0),
    ],
)
def test_labels_that_a_data_set_has_shifted_are_followed_into_the_model(returned, line, given, count, found):
    body = SHIFTED.format(imported="AutoModelForCausalLM", line=line, given=given)
    if line.endswith(":"):
        body = body.replace("    return model", "        return model")
    files = {"data.py": DATA.format(returned=returned), "train.py": body.replace('("x")', '("x").to("cuda")')}
    assert len(found("ESP267", files)) == count
