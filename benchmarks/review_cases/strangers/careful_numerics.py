"""Logarithms, roots and quotients that cannot meet a zero."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def log_mel(power, floor=1e-10):
    return torch.log10(torch.maximum(power, power.new_full((), floor)))


def loudness(wave):
    return 20 * torch.log10(wave.square().mean(-1).add(1e-8).sqrt())


def standardised(x):
    mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    return (x - mean) / std.clamp_min(1e-5)


def peak(wave):
    return wave / wave.abs().amax(-1, keepdim=True).clamp(min=1e-4)


def gaussian_nll(mean, raw, target):
    variance = F.softplus(raw) + 1e-4
    return 0.5 * (torch.log(variance) + (target - mean).square() / variance).mean()


def entropy(logits):
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def mixture(log_weights, log_likelihoods):
    return torch.logsumexp(log_weights.log_softmax(-1) + log_likelihoods, dim=-1)


def log_one_minus(logits):
    """log(1 - sigmoid(x)) without the sigmoid."""
    return F.logsigmoid(-logits)


def inverse_frequency(labels, classes):
    counts = torch.bincount(labels, minlength=classes).float()
    return (counts + 1).log().max() - torch.log(counts + 1)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = math.sqrt(dim)
        self.temperature = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, q, k):
        weights = (q @ k.transpose(-2, -1) / self.scale).exp()
        weights = weights / weights.sum(-1, keepdim=True)  # allow: ESP211
        return weights, F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.temperature.exp()


if __name__ == "__main__":
    x = torch.zeros(2, 5, requires_grad=True)
    total = log_mel(x).sum() + loudness(x).sum() + standardised(x).sum() + peak(x).sum() + entropy(x).sum()
    total = total + gaussian_nll(x, x, x) + log_one_minus(x).sum() + mixture(x, x).sum() + RMSNorm(5)(x).sum()
    total.backward()
    assert x.grad.isfinite().all() and Attention(5)(x, x)[0].isfinite().all()
    assert inverse_frequency(torch.tensor([0, 0, 2]), 4).isfinite().all()
