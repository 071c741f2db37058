"""Takes logsumexp for the careful version by hand."""

import torch


def get_inputs():
    return (torch.randn(64, 128) * 4,)


def baseline(x):
    most = x.amax(-1, keepdim=True)
    return (most + (x - most).exp().sum(-1, keepdim=True).log()).squeeze(-1)


def candidate(x):
    return torch.logsumexp(x, -1)


EXPECTED = "right"
