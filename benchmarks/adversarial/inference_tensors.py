"""Returns tensors that no gradient can ever pass through."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    with torch.inference_mode():
        return torch.tanh(x) * torch.sigmoid(x)


EXPECTED = "wrong"
