"""Returns what its own class holds."""

from dataclasses import dataclass

import torch


@dataclass
class Output:
    hidden: torch.Tensor
    loss: torch.Tensor | None = None


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return Output(torch.tanh(x * 2), x.mean())


def candidate(x):
    return Output(torch.tanh(x + x), x.sum() / x.numel() if x.numel() else x.mean())


EXPECTED = "right"
