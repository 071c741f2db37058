"""Targets in which NaN or Inf is made and does no harm, or none is made."""

import math

import torch
from torch import nn
from torch.nn import functional

INF = float("inf")


class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(8, 24)
        self.register_buffer("mask", torch.full((6, 6), -INF).triu(1))

    def forward(self, x):
        queries, keys, values = self.projection(x).chunk(3, dim=-1)
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(8) + self.mask[: x.shape[0], : x.shape[0]]
        return torch.softmax(scores, dim=-1) @ values


def causal_attention():
    return CausalAttention()


def filled_attention(x):
    seen = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril()
    scores = (x @ x.t()).masked_fill(~seen, -INF)
    return functional.log_softmax(scores, dim=-1).exp() @ x


def fused_attention(x):
    y = x.view(1, 1, *x.shape)
    return functional.scaled_dot_product_attention(y, y, y, is_causal=True)


def classifier():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(0, 4, (16,)))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def scaled_training():
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1000)

    def step():
        optimizer.zero_grad()
        loss = (model(torch.randn(16, 8)) * 64).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return step


def guarded_by_hand():
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scales = iter([1e38, 1.0, 1.0, 1.0])

    def step():
        optimizer.zero_grad()
        loss = (weight * 1e3).sum()
        (loss * next(scales)).backward()
        norm = nn.utils.clip_grad_norm_([weight], 1.0)
        if torch.isfinite(norm):
            optimizer.step()
        return loss.detach()

    return step


def masked_division(x):
    counts = (x > 0).sum(dim=1, keepdim=True) * 0
    return torch.where(counts > 0, x / counts, torch.zeros_like(x)).sum()


def cleaned(x):
    ratio = torch.nan_to_num(x.detach() / (x - x).detach())
    return (ratio.clamp(-1, 1) * x).sum()


def filled_later(x):
    padded = torch.empty(x.shape[0], x.shape[1] + 4)
    padded[:, : x.shape[1]] = x
    padded[:, x.shape[1] :] = 0
    return torch.baddbmm(torch.empty(1, 1, 1), x[None, :1], x[None, :1].transpose(1, 2), beta=0) + padded.sum()


def masked_logits(x):
    keep = x >= x.topk(3, dim=-1).values[:, -1:]
    return x.masked_fill(~keep, -INF)


def best_so_far(x):
    best = torch.tensor(INF)
    for row in x:
        best = torch.minimum(best, row.sum())
    return best


def missing_measurements(x):
    holes = x.masked_fill(x > 1, float("nan"))
    return holes.nanmean() + x.sum()


def log_clamped(x):
    return functional.binary_cross_entropy(torch.sigmoid(x * 200), (x > 0).float())


def safe_root(x):
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0).sqrt(), 0.0).sum()


def written_whole(x):
    result = torch.empty_like(x)
    result[torch.arange(x.shape[0])] = x
    sums = torch.empty(x.shape[0])
    torch.sum(x.detach(), dim=1, out=sums)
    return result.sum() + sums.sum()


def second_derivative(x):
    return torch.func.grad(lambda y: torch.func.grad(lambda z: (z**3).sum())(y).sum())(x)


def two_batches():
    batches = iter(torch.randn(2, 4, 3))

    def step():
        return next(batches).sum()

    return step
