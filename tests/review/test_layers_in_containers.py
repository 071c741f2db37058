"""Calls of modules that a container holds: what is passed to them reaches the parameters of their `forward`."""

from __future__ import annotations

import pytest

TOWER = """
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Attention(nn.Module):
        def forward(self, x, mask):
            return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = {layers}

        def forward(self, x):
            t = x.size(1)
            mask = torch.ones(t, t, dtype=torch.bool).{triangle}
            for {target} in {source}:
                x = {layer}(x, mask)
            return x
    """
LIST = "nn.ModuleList([Attention(), Attention()])"


def tower(layers=LIST, target="layer", source="self.layers", layer="layer", triangle="triu(1)"):
    return TOWER.format(layers=layers, target=target, source=source, layer=layer, triangle=triangle)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"layers": "nn.ModuleList(Attention() for _ in range(4))"},
        {"layers": "nn.Sequential(*[Attention() for _ in range(4)])"},
        {"target": "i, layer", "source": "enumerate(self.layers)"},
        {"target": "layer, _", "source": "zip(self.layers, range(4))"},
        {"target": "i", "source": "range(4)", "layer": "self.layers[i]"},
    ],
)
def test_an_argument_is_followed_into_the_layers_of_a_container(found, form):
    assert found("ESP221", tower(**form)) == ["return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)"]


@pytest.mark.parametrize(
    "form",
    [
        {"triangle": "tril()"},
        {"layers": "nn.ModuleList([Attention(), nn.Linear(4, 4)])"},
        {"target": "_, layer", "source": "zip(self.layers, others)"},
    ],
)
def test_a_right_mask_and_layers_of_unknown_class_are_not_reported(found, form):
    assert found("ESP221", tower(**form)) == []
