"""Cases of ESP209: dimensions that a view asks for behind more or fewer elements than they lie in memory."""

from __future__ import annotations

import pytest

ATTENTION = """
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.dim, self.heads = dim, heads
            self.qkv, self.query = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.patches = nn.Conv2d(3, 64, 16, 16)

        def forward(self, x, image):
            b, n, c = x.shape
            d = self.dim // self.heads
            p = x.view(b, n, self.heads, d).transpose(1, 2)
            {lines}
            return result
    """


@pytest.mark.parametrize(
    "lines",
    [
        "result = self.query(x).view(b, self.heads, n, d)",
        "q, k, v = self.qkv(x).chunk(3, dim=-1)\n            result = k.reshape(b, self.heads, n, -1)",
        "result = (p @ p.transpose(-1, -2) @ p).reshape(b, n, c)",
        "y = self.patches(image)\n            b, c, h, w = y.shape\n            result = y.view(b, h * w, c)",
    ],
)
def test_dimensions_that_are_moved_are_reported(found, lines):
    assert len(found("ESP209", ATTENTION.format(lines=lines))) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "result = self.query(x).view(b, n, self.heads, d).transpose(1, 2)",
        "result = (p @ p).transpose(1, 2).reshape(b, n, c)",
        "result = self.query(x).view(b * n, self.heads, d)",
        "result = self.qkv(x).reshape(b, n, 3, self.heads, d).permute(2, 0, 3, 1, 4)",
        "y = self.patches(image)\n            b, c, h, w = y.shape\n            result = y.view(b, c, h * w).mT",
        "y = self.patches(image)\n            b, c, h, w = y.shape\n            result = y.view(b, 8, c // 8, h, w)",
        "result = x.view(b, 1, n, c)",
        "result = x.view(-1, n, c)",
    ],
)
def test_splits_and_merges_of_neighbours_are_not_reported(found, lines):
    assert found("ESP209", ATTENTION.format(lines=lines)) == []


def test_a_number_of_heads_that_is_known_counts_as_well(found):
    model = (
        "    class Model(nn.Module):\n        def __init__(self, dim):\n            self.inner = Attention(dim, 4)\n"
    )
    source = f"{ATTENTION}\n{model}"
    wrong, right = "result = x.view(b, self.heads, n, d)", "result = x.view(b, n, self.heads, d)"
    assert len(found("ESP209", source.format(lines=wrong))) == 1
    assert found("ESP209", source.format(lines=right)) == []
