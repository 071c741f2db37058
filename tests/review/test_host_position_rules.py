"""Cases of ESP148: positions that a module makes on the host."""

from __future__ import annotations

import pytest

ENCODER = """
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.pos = nn.Embedding(512, 64)
            self.norm = nn.LayerNorm(64)

        def {method}(self, x):
            {lines}
    """


@pytest.mark.parametrize(
    "lines",
    [
        "return x + self.pos(torch.arange(x.size(1)))",
        "p = torch.arange(x.size(1))\n            return self.pos(p)[None]",
        "p = torch.arange(x.size(1)).unsqueeze(0).expand(len(x), -1)\n            return self.pos(p)",
        "return x + self.pos(torch.zeros(len(x), dtype=torch.long))",
        "return self.pos(torch.arange(512)[: x.size(1)])",
    ],
)
def test_positions_without_a_device_are_reported(found, lines):
    assert len(found("ESP148", ENCODER.format(method="forward", lines=lines))) == 1


@pytest.mark.parametrize(
    ("method", "lines"),
    [
        ("forward", "return x + self.pos(torch.arange(x.size(1), device=x.device))"),
        ("forward", "return x + self.pos(torch.arange(x.size(1)).to(x.device))"),
        ("forward", "p = torch.arange(x.size(1))\n            p = p.to(x)\n            return self.pos(p)"),
        ("forward", "return x + self.pos(torch.zeros_like(x))"),
        ("forward", "return x[torch.arange(len(x))]"),
        ("table", "return self.pos(torch.arange(512))"),
    ],
)
def test_positions_on_the_device_of_the_input_are_not_reported(found, method, lines):
    assert found("ESP148", ENCODER.format(method=method, lines=lines)) == []


def test_a_default_device_silences_the_rule(found):
    source = ENCODER.format(method="forward", lines="return self.pos(torch.arange(x.size(1)))")
    assert found("ESP148", source + "\n    torch.set_default_device('cuda')\n") == []
