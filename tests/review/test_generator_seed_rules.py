"""Cases of ESP288 on generators that every step makes anew with the same seed."""

from __future__ import annotations

import pytest

NOISE = """
    import numpy as np
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self, seed):
            super().__init__()
            self.net, self.seed = nn.Linear(8, 8), seed
            self.generator = torch.Generator().manual_seed(seed)

        def draw(self, x, step):
            {seeded}
            {more}
            return torch.randn(x.shape, generator=g)

        def loss(self, x, step):
            return (self.net(x + self.draw(x, step)) - x).square().mean()

    def fit(loader):
        model = Model(3)
        optimizer = torch.optim.Adam(model.parameters())
        for step, x in enumerate(loader):
            optimizer.zero_grad()
            model.loss(x, step).backward()
            optimizer.step()
    """


@pytest.mark.parametrize(
    "seeded",
    [
        "g = torch.Generator().manual_seed(0)",
        "g = torch.Generator(device=x.device).manual_seed(self.seed)",
        "g = torch.Generator(); g.manual_seed(7)",
        "g = np.random.default_rng(self.seed)",
    ],
)
def test_a_generator_that_every_step_seeds_alike_is_reported(found, seeded):
    assert found("ESP288", NOISE.format(seeded=seeded, more="pass")) == [seeded]


@pytest.mark.parametrize(
    ("seeded", "more"),
    [
        ("g = self.generator", "pass"),
        ("g = torch.Generator().manual_seed(self.seed + step)", "pass"),
        ("g = torch.Generator().manual_seed(step)", "pass"),
        ("g = torch.Generator().manual_seed(self.seed)", "self.seed += 1"),
    ],
)
def test_generators_that_go_on_are_not_reported(found, seeded, more):
    assert found("ESP288", NOISE.format(seeded=seeded, more=more)) == []


def test_a_generator_made_before_the_training_is_not_reported(found):
    source = NOISE.format(seeded="g = self.generator", more="pass") + (
        "def split(data):\n        return torch.randperm(9, generator=torch.Generator().manual_seed(0))\n"
    )
    assert found("ESP288", source) == []
