import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineHead(nn.Module):
    def __init__(self, d, classes, s=30.0, m=0.35):
        super().__init__()
        self.weight, self.s, self.m = nn.Parameter(torch.empty(classes, d)), s, m
        nn.init.xavier_normal_(self.weight)

    def forward(self, x, y):
        cos = F.normalize(x, dim=-1) @ F.normalize(self.weight, dim=-1).t()
        margin = torch.zeros_like(cos).scatter_(1, y[:, None], self.m)
        return self.s * (cos - margin)


def masked_mean(h, mask, eps=1e-6):
    mask = mask.float()[..., None]
    return (h * mask).sum(1) / mask.sum(1).clamp_min(1.0)


def dice(probs, target, eps=1.0):
    inter = (probs * target).sum((2, 3))
    return 1 - ((2 * inter + eps) / (probs.sum((2, 3)) + target.sum((2, 3)) + eps)).mean()


def pairwise(x, eps=1e-12):
    d2 = (x[:, None] - x[None]).pow(2).sum(-1)
    return torch.sqrt(d2.clamp(min=eps))


def focal(logits, target, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p = torch.sigmoid(logits)
    pt = p * target + (1 - p) * (1 - target)
    return ((1 - pt) ** gamma * ce).mean()


def entropy(logits):
    logp = logits.log_softmax(-1)
    return -(logp.exp() * logp).sum(-1)


def log_mel(power):
    return torch.log10(torch.clamp(power, min=1e-10)) * 10


def standardize(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-8)


def gumbel(shape, device):
    u = torch.rand(shape, device=device).clamp(1e-9, 1 - 1e-9)
    return -torch.log(-torch.log(u))


def gaussian_nll(mu, log_var, y):
    return 0.5 * (log_var + (y - mu) ** 2 / log_var.exp()).mean()


def average(values: list[float]) -> float:
    return sum(values) / len(values)


def rms(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def warmup(step, total):
    return step / total if step < total else (total / step) ** 0.5


def rmse(pred, target):
    with torch.no_grad():
        return torch.sqrt(F.mse_loss(pred, target)).item()
