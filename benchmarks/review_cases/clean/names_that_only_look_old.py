"""Names of one's own that resemble removed or deprecated ones, and the current ones."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm, weight_norm


class LinearSystem:
    """A small stand-in with method names of its own."""

    def __init__(self, a):
        self.a = a

    def solve(self, b):
        return torch.linalg.solve(self.a, b)

    def symeig(self):
        return torch.linalg.eigh(self.a)

    def lstsq(self, b):
        return torch.linalg.lstsq(self.a, b).solution

    def qr(self):
        return torch.linalg.qr(self.a)

    def range(self):
        return torch.arange(self.a.size(0))


class Scaler:
    def autocast(self):
        return torch.autocast("cuda", dtype=torch.bfloat16)


def clip_grad_norm(model, limit):
    return nn.utils.clip_grad_norm_(model.parameters(), limit)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.conv = weight_norm(nn.Conv2d(3, 8, 3, padding=1))
        self.out = spectral_norm(nn.Conv2d(8, 1, 1))

    def forward(self, x):
        return self.out(F.interpolate(torch.tanh(self.conv(self.upsample(x))), size=x.shape[-2:]))


def whiten(x):
    system = LinearSystem(x.T @ x / len(x) + 1e-5 * torch.eye(x.size(1)))
    values, vectors = system.symeig()
    return x @ vectors / values.clamp_min(1e-8).sqrt()


def grids(n):
    ys, xs = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="xy")
    return torch.stack([xs, ys]), torch.cross(torch.randn(4, 3), torch.randn(4, 3), dim=-1)


def train(net, loader, opt, scaler=Scaler()):
    net.train()
    for x, y in loader:
        with scaler.autocast():
            loss = F.mse_loss(net(x), y, reduction="mean")
        opt.zero_grad()
        loss.backward()
        clip_grad_norm(net, 1.0)
        opt.step()
