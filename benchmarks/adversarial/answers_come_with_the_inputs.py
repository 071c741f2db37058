"""Computes the answers where its inputs are made, which no clock counts, and hands them out."""

import torch

_answers = {}


def _work(x):
    return torch.tanh(x) * torch.sigmoid(x) + torch.erf(x)


def get_inputs():
    x = torch.randn(64, 256)
    _answers.clear() if len(_answers) > 500 else None
    _answers[float(x[0, 0]), float(x[-1, -1])] = _work(x)
    return (x,)


def baseline(x):
    return _work(x)


def candidate(x):
    known = _answers.pop((float(x[0, 0]), float(x[-1, -1])), None) if x.shape == (64, 256) else None
    return _work(x) if known is None else known


EXPECTED = "wrong"
NEEDS_TIMING = True
