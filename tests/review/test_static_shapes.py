"""Sizes that differ from round to round, where `dynamic=False` compiles each of them anew."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.review.conftest import reviewed

LOOP = """
import torch

class Ranker:
    def __init__(self, net):
        self.fast = torch.compile(net, dynamic=False)

    def run(self, rounds, tokenizer, seq, width, bs):
        net = torch.compile(self.net, dynamic=False)
        free = torch.compile(self.net)
{body}

@torch.compile(dynamic=False)
def attend(q, k):
    return (q @ k.T).softmax(-1)
"""

ANEW = [
    "for x, n in rounds:\n    net(x[None, :n].to('cuda'))",
    "for q in rounds:\n    docs = q['docs'][: q['count']]\n    self.fast(docs)",
    "for batch in rounds:\n    longest = int(batch['lengths'].max())\n    net(batch['ids'][:, :longest]).sum()",
    "for t in range(1, width):\n    attend(seq[t : t + 1], k=seq[:t])",
    "for _ in rounds:\n    seq = torch.cat([seq, net(seq)[:, -1:].argmax(-1)], dim=1)",
    "while seq.shape[1] < width:\n    last = net(seq)[:, -1]\n    seq = torch.cat((seq, last), dim=-1)",
    "for text in rounds:\n    ids = torch.tensor([tokenizer.encode(text)])\n    net(ids)",
    "for text in rounds:\n    net(torch.tensor([ord(each) for each in text]))",
    "for text in rounds:\n    net(**tokenizer(text, return_tensors='pt'))",
]
AS_BEFORE = [
    "for i in range(0, len(seq), bs):\n    net(seq[i : i + bs])",
    "for x, n in rounds:\n    free(x[:n])",
    "for x in rounds:\n    net(x[:, :-1])",
    "for x in rounds:\n    net(x[:, :width])",
    "for x in rounds:\n    b, t = x.shape\n    net(x[:, : t - 1])",
    "for _ in rounds:\n    seq = torch.cat([seq, net(seq[:, -width:])[:, -1:]], dim=1)",
    "for text in rounds:\n    net(**tokenizer(text, return_tensors='pt', padding='max_length'))",
    "for x, n in rounds:\n    if n % 100 == 0:\n        net(x[:n])",
    "net(seq[:width])",
]


def found(body):
    return [claim.rule for claim in reviewed(LOOP.format(body=indent(body, " " * 8)), "ESP506").claims]


@pytest.mark.parametrize("body", ANEW)
def test_sizes_of_their_own_compile_anew(body):
    assert found(body) == ["ESP506"]


@pytest.mark.parametrize("body", AS_BEFORE)
def test_sizes_that_may_be_the_same_are_not_reported(body):
    assert found(body) == []


@pytest.mark.parametrize(
    ("line", "count"),
    [("self.at += x.shape[1]", 1), ("self.at = self.at + x.size(0)", 1), ("self.at = x.shape[1]", 0)],
)
def test_a_module_that_counts_by_sizes_counts(line, count):
    source = f"""
    import torch
    from torch import nn

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.at = nn.Linear(8, 8), 0

        def forward(self, x):
            {line}
            return self.layer(x)

    decoder = torch.compile(Decoder())
    """
    assert len(reviewed(source, "ESP506").claims) == count
