"""Straight-through quantisation of weights; a masked (pruned) layer beside it."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize


class STERound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, levels):
        scale = w.abs().max().clamp_min(1e-8)
        return (w / scale * levels).round() / levels * scale

    @staticmethod
    def backward(ctx, g):
        return g, None


class Quantise(nn.Module):
    def __init__(self, bits=4):
        super().__init__()
        self.levels = 2 ** (bits - 1) - 1

    def forward(self, w):
        return STERound.apply(w, self.levels)


class MaskedLinear(nn.Linear):
    def __init__(self, i, o, sparsity=0.8):
        super().__init__(i, o)
        self.register_buffer("mask", torch.ones_like(self.weight))
        self.sparsity = sparsity

    @torch.no_grad()
    def prune(self):
        k = int(self.sparsity * self.weight.numel())
        threshold = self.weight.abs().flatten().kthvalue(k).values
        self.mask.copy_((self.weight.abs() > threshold).float())
        self.weight.mul_(self.mask)

    def forward(self, x):
        return F.linear(x, self.weight * self.mask, self.bias)


def train(loader, device="cuda", epochs=5):
    net = nn.Sequential(nn.Flatten(), MaskedLinear(784, 300), nn.ReLU(), nn.Linear(300, 10)).to(device)
    parametrize.register_parametrization(net[3], "weight", Quantise())
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for epoch in range(epochs):
        net.train()
        for x, y in loader:
            loss = F.cross_entropy(net(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            with torch.no_grad():
                net[1].weight.grad.mul_(net[1].mask)
            opt.step()
        net[1].prune()
    return net
