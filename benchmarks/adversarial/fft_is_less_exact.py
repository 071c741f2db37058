"""Convolves in the frequency domain, where small results take the errors of large ones."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(16, 512), torch.randn(1, 512)


def baseline(x, w):
    size = x.shape[-1] + w.shape[-1] - 1
    padded = F.pad(x, (w.shape[-1] - 1, w.shape[-1] - 1))
    return F.conv1d(padded[:, None], w.flip(-1)[:, None])[:, 0, :size]


def candidate(x, w):
    size = x.shape[-1] + w.shape[-1] - 1
    return torch.fft.irfft(torch.fft.rfft(x, size) * torch.fft.rfft(w, size), size)


EXPECTED = "wrong"
