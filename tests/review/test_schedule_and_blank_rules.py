"""Cases of ESP130 and ESP131: noise of diffusion models, and the blank of CTC."""

from __future__ import annotations

import pytest

DIFFUSION = """
import torch
from torch import nn

class Diffusion(nn.Module):
    def __init__(self, betas, model):
        super().__init__()
        self.model = model
        alphas = 1.0 - betas
        bars = torch.cumprod(alphas, dim=0)
        self.alphas, self.bars = alphas, bars
        self.register_buffer("root", {root})
        self.register_buffer("rest", {rest})

    def take(self, values, t):
        return values.gather(0, t).view(-1, 1)

    def noised(self, x0, t, noise):
        {body}

    def loss(self, x0):
        t = torch.randint(0, 1000, (len(x0),))
        noise = torch.randn_like(x0)
        return (self.model(self.noised(x0, t, noise), t) - noise).pow(2).mean()
"""
BUFFERS = "a, b = self.take(self.root, t), self.take(self.rest, t)\n        return a * x0 + b * noise"


@pytest.mark.parametrize(
    ("root", "rest", "body"),
    [
        ("alphas.sqrt()", "(1.0 - alphas).sqrt()", BUFFERS),
        ("torch.sqrt(alphas)", "torch.sqrt(1 - alphas)", "return self.root[t] * x0 + self.rest[t] * noise"),
        ("alphas.sqrt()", "betas.sqrt()", "return noise * self.rest[t] + x0 * self.root[t]"),
    ],
)
def test_noise_of_one_step_at_a_random_step_is_reported(root, rest, body, found):
    assert len(found("ESP130", DIFFUSION.format(root=root, rest=rest, body=body))) == 1


@pytest.mark.parametrize(
    ("root", "rest", "body"),
    [
        ("bars.sqrt()", "(1.0 - bars).sqrt()", BUFFERS),
        ("alphas.sqrt()", "(1 - bars).sqrt()", "return x0 / self.root[t] + (1 / self.rest[t]) * noise"),
        ("alphas.sqrt()", "(1.0 - alphas).sqrt()", "return 0.5 * x0 + 0.5 * noise"),
        (
            "alphas.sqrt()",
            "(1 - alphas).sqrt()",
            "return (1 / self.root[t]) * (x0 - noise * (1 - self.bars[t])) + self.rest[t] * torch.randn_like(x0)",
        ),
    ],
)
def test_the_cumulative_product_and_steps_back_are_right(root, rest, body, found):
    assert found("ESP130", DIFFUSION.format(root=root, rest=rest, body=body)) == []


@pytest.mark.parametrize("blank", ["BLANK = len(CHARS)", "BLANK_ID = 28", "CTC_BLANK = len(CHARS) - 1"])
@pytest.mark.parametrize("loss", ["nn.CTCLoss()", "nn.CTCLoss(zero_infinity=True)"])
def test_a_default_blank_beside_another_constant_is_reported(blank, loss, found):
    files = {"text.py": f'CHARS = " abc"\n{blank}\n', "train.py": f"from torch import nn\n\nloss = {loss}\n"}
    assert found("ESP131", files) == [f"loss = {loss}"]


@pytest.mark.parametrize(
    ("blank", "loss"),
    [
        ("BLANK = 0", "nn.CTCLoss()"),
        ("BLANK = len(CHARS)", "nn.CTCLoss(blank=BLANK)"),
        ("BLANK = len(CHARS)", "nn.CTCLoss(BLANK)"),
        ("BLANK = ' '", "nn.CTCLoss()"),
        ("PAD = len(CHARS)", "nn.CTCLoss()"),
    ],
)
def test_the_blank_of_the_project_is_right(blank, loss, found):
    files = {"text.py": f'CHARS = " abc"\n{blank}\n', "train.py": f"from torch import nn\n\nloss = {loss}\n"}
    assert found("ESP131", files) == []
