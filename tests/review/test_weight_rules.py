"""ESP202 on weights, by the axis along which they are used; ESP208 on windows that are put together again."""

from __future__ import annotations

import pytest

HEAD = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Part(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.score = nn.Linear(d, 1)
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.heads = 4

    def forward(self, x, other):
"""

WRONG = {
    "pairs of nodes, batched": """
        e = F.leaky_relu(self.score(x) + self.score(x).transpose(1, 2))
        a = F.softmax(e.masked_fill(other == 0, -1e9), dim=0)
        return torch.bmm(a, x)
""",
    "pairs of nodes": """
        e = self.score(x) + self.score(x).T
        e = torch.where(other > 0, e, -9e15)
        return F.dropout(F.softmax(e, dim=0), 0.1) @ x
""",
    "a single output": """
        w = torch.softmax(self.score(torch.tanh(x)), dim=-1)
        return (w * x).sum(1)
""",
    "pooled along another axis": """
        w = torch.softmax(self.score(x).squeeze(-1), dim=0)
        return (w.unsqueeze(-1) * x).sum(dim=1)
""",
    "heads with a bias": """
        b, n, c = x.shape
        q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
        k = self.k(x).view(b, n, self.heads, -1).transpose(1, 2)
        v = self.v(x).view(b, n, self.heads, -1).transpose(1, 2)
        s = q @ k.transpose(-2, -1) / math.sqrt(c)
        if other is not None:
            s = s + other
        return torch.softmax(s, dim=1) @ v
""",
    "a product with a bias": """
        s = torch.bmm(self.q(x), self.k(x).transpose(1, 2)) * 0.1 + other
        return torch.bmm(F.softmax(s, dim=1), self.v(x))
""",
}

RIGHT = {
    "pooled along the same axis": """
        w = torch.softmax(self.score(x), dim=1)
        return (w * x).sum(dim=1)
""",
    "pooled along the first": """
        w = torch.softmax(self.score(x), dim=0)
        return (w * x).sum(dim=0)
""",
    "one query": """
        w = torch.softmax(other @ x.T, dim=0)
        return w @ x
""",
    "a row for each query": """
        s = torch.bmm(self.q(x), self.k(x).transpose(1, 2)) + other
        return torch.bmm(F.softmax(s, dim=-1), self.v(x))
""",
    "how often each is chosen": """
        p = torch.softmax(other, dim=-1)
        return (p * x).sum(0)
""",
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_weights_along_another_axis_than_their_use_are_found(found, body):
    assert len(found("ESP202", HEAD + body)) == 1


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_weights_along_the_axis_of_their_use_are_left_alone(found, body):
    assert found("ESP202", HEAD + body) == []


TORN = {
    "a size kept in a name": """
        c = x.shape[-1]
        y = x.view(-1, 4 // other, 8 // other, other, other, c)
        return y.permute(0, 1, 3, 2, 4, 5).view(-1, 4, 8, c)
""",
    "a quotient kept in a name": """
        n = int(x.shape[0] / (4 * 8 / other))
        y = x.view(n, 4 // other, 8 // other, other, other, -1)
        return y.permute(0, 1, 3, 2, 4, 5).view(n, 4, 8, -1)
""",
    "letters": """
        y = x.reshape(2, 3, 4, 5)
        return torch.einsum("abcd->acbd", y).view(2, 12, 5)
""",
    "a star": """
        y = x.permute(0, 2, 1, 3)
        size = y.size()[:-2] + (64,)
        return y.view(*size)
""",
}


@pytest.mark.parametrize("body", TORN.values(), ids=TORN)
def test_a_view_of_what_was_torn_apart_is_found(found, body):
    assert len(found("ESP208", HEAD + body)) == 1


@pytest.mark.parametrize("body", TORN.values(), ids=TORN)
def test_the_same_by_reshape_is_left_alone(found, body):
    last = body.rindex(".view(")
    assert found("ESP208", HEAD + body[:last] + ".reshape(" + body[last + len(".view(") :]) == []


ATTENDED = """
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attend = nn.MultiheadAttention(c, 4{how})

    def forward(self, x):
        b, n, c = x.shape
        y, _ = self.attend(x, x, x)
        return {result}
"""


def test_attention_with_the_batch_first_gives_a_turned_tensor(found):
    source = ATTENDED.format(how=", batch_first=True", result="y.view(b * n, c)")
    assert found("ESP208", source) == ["return y.view(b * n, c)"]


@pytest.mark.parametrize(
    ("how", "result"),
    [
        ("", "y.view(b * n, c)"),
        (", batch_first=True", "y.reshape(b * n, c)"),
        (", batch_first=True", "y.view(b, n, 4, c // 4)"),
        (", batch_first=True", "(y + x).view(b * n, c)"),
    ],
)
def test_a_view_that_attention_allows_is_left_alone(found, how, result):
    assert found("ESP208", ATTENDED.format(how=how, result=result)) == []
