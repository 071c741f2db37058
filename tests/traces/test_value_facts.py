"""Answers name the line to change in other files, and advice only whose precondition the code shows."""

from __future__ import annotations

import pytest

from tests.traces.printed_traces import explain_printed

DATA = """\
import torch
from torch.utils.data import DataLoader, Dataset


class Notes(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, at):
        row = self.rows[at]
        return {"ids": row[:-1], "kind": int(row[-1])}


def pack(samples):
    ids = torch.tensor([sample["ids"] for sample in samples])
    kinds = torch.tensor([sample["kind"] for sample in samples])
    return ids, kinds


def feed(rows):
    return DataLoader(Notes(rows), batch_size=2, collate_fn=pack)
"""

NET = """\
import torch
from torch import nn
from data import feed

KINDS = 4
SPAN = 6


class Net(nn.Module):
    def __init__(self, kinds, span):
        super().__init__()
        self.word, self.place = nn.Embedding(50, 8), nn.Embedding(span, 8)
        self.out = nn.Linear(8, kinds)

    def forward(self, ids):
        spots = torch.arange(ids.shape[1])
        hidden = self.word(ids) + self.place(spots)
        return self.out(hidden.mean(1))


def fit(rows):
    net, loss_of = Net(KINDS, SPAN), nn.CrossEntropyLoss()
    for ids, kinds in feed(rows):
        scores = net(ids)
        loss = loss_of(scores, kinds)
        loss.backward()
"""

CASES = {
    "positions": (
        [
            ("net.py", "scores = net(ids)", "fit", "net(ids)"),
            ("net.py", "hidden = self.word(ids) + self.place(spots)", "forward", "self.place(spots)"),
        ],
        "IndexError: index out of range in self",
        ["`self.place` has 6 rows, `span` at net.py:6", "counts `ids.shape[1]` positions"],
        ["resize_token_embeddings", "self.word"],
    ),
    "labels": (
        [("net.py", "loss = loss_of(scores, kinds)", "fit", "loss_of(scores, kinds)")],
        "IndexError: Target 4 is out of bounds.",
        ["label 4 in `kinds`", "`kinds` at net.py:5", "data.py:11", "subtract 1 at data.py:11", "write 5 at net.py:5"],
        [],
    ),
    "ragged": (
        [
            ("net.py", "for ids, kinds in feed(rows):", "fit", ""),
            ("data.py", 'ids = torch.tensor([sample["ids"] for sample in samples])', "pack", ""),
        ],
        "ValueError: expected sequence of length 3 at dim 1 (got 5)",
        ["data.py:15: one row has 3 elements", "pad_sequence([torch.as_tensor(sample['ids']) for sample in samples]"],
        ["tokenizer"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_answer_follows_the_value_to_the_line_to_change(tmp_path, name):
    frames, error, parts, absent = CASES[name]
    explained = explain_printed(tmp_path, {"data.py": DATA, "net.py": NET}, frames, error)
    text = f"{explained.answer} {explained.fix}"
    assert [part for part in parts if part not in text] == [], text
    assert [part for part in absent if part in text] == [], text


STATE = """\
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inner, self.last = nn.Linear(4, width), nn.Linear(width, 3)


def save(path):
    torch.save(Tower(%s).state_dict(), path)


def load(path):
    tower = Tower()
    tower.load_state_dict(torch.load(path))
"""
SIZES = (
    "RuntimeError: Error(s) in loading state_dict for Tower:\n"
    "\tsize mismatch for inner.weight: copying a param with shape torch.Size([32, 4]) from checkpoint, "
    "the shape in current model is torch.Size([16, 4]).\n"
    "\tsize mismatch for last.weight: copying a param with shape torch.Size([3, 32]) from checkpoint, "
    "the shape in current model is torch.Size([3, 16])."
)


@pytest.mark.parametrize(
    ("passed", "part", "absent"),
    [
        ("width=32", "by `Tower(width=32)` at state.py:12: the arguments differ", "classes"),
        ("", "which `Tower()` creates at state.py:16", "the arguments differ"),
    ],
)
def test_a_state_of_other_sizes_names_both_creations_if_they_differ(tmp_path, passed, part, absent):
    frames = [("state.py", "tower.load_state_dict(torch.load(path))", "load", "")]
    explained = explain_printed(tmp_path, {"state.py": STATE % passed}, frames, SIZES)
    text = f"{explained.answer} {explained.fix}"
    assert part in text
    assert absent not in text


LOOP = """\
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 5)
        self.state = torch.zeros(1, 5)

    def forward(self, x):
        self.state = self.cell(x, self.state%s)
        return self.state


def learn(xs):
    memory = Memory()
    for x in xs:
        loss = memory(x).sum()
        loss.backward()
"""


@pytest.mark.parametrize(("cut", "is_named"), [("", True), (".detach()", False)])
def test_a_state_kept_by_a_module_is_named_only_if_it_keeps_its_graph(tmp_path, cut, is_named):
    frames = [("loop.py", "loss.backward()", "learn", "")]
    error = "RuntimeError: Trying to backward through the graph a second time"
    explained = explain_printed(tmp_path, {"loop.py": LOOP % cut}, frames, error)
    assert ("`self.state` at loop.py:12 keeps the graph" in explained.answer) is is_named
    assert "`memory`" not in explained.answer
