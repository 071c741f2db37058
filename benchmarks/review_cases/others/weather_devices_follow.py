import math

import torch
import torch.nn as nn


class Fourier(nn.Module):
    def __init__(self, n=16, extent=2 * math.pi):
        super().__init__()
        self.register_buffer("k", torch.arange(1, n + 1).float() * 2 * math.pi / extent, persistent=False)

    def forward(self, where):
        phase = where.unsqueeze(-1) * self.k
        return torch.cat([phase.sin(), phase.cos()], -1).flatten(-2)


class StationNet(nn.Module):
    """Interpolates weather stations; missing readings are masked out."""

    def __init__(self, variables=5, dim=64):
        super().__init__()
        self.place = Fourier()
        self.value = nn.Linear(variables + 64, dim)
        self.query = nn.Linear(64, dim)
        self.out = nn.Linear(dim, variables)
        self.gain = nn.Parameter(torch.ones(variables))
        self.eps = torch.tensor(1e-6)
        self.offsets = None

    def forward(self, where, readings, present, at):
        b, n, _ = readings.shape
        rank = torch.arange(n, device=readings.device)
        shown = rank.expand(b, n) < present.sum(1, keepdim=True)
        v = self.value(torch.cat([readings, self.place(where)], -1))
        q = self.query(self.place(at))
        scores = q @ v.transpose(1, 2) / math.sqrt(v.shape[-1])
        scores = scores + readings.new_zeros(b, 1, n).masked_fill(~shown[:, None], -1e9)
        out = self.out(scores.softmax(-1) @ v) * self.gain
        if self.offsets is None or self.offsets.device != out.device:
            self.offsets = torch.zeros(out.shape[-1]).to(out)
        noise = torch.randn_like(out) if self.training else torch.zeros_like(out)
        return out + self.offsets + 0.01 * noise + self.eps


def train(net, loader, device="cuda"):
    net = net.to(device)
    weights = torch.tensor([1.0, 1.0, 0.5, 0.5, 2.0]).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    net.train()
    for batch in loader:
        where, readings, present, at, truth = [t.to(device, non_blocking=True) for t in batch]
        loss = (weights * (net(where, readings, present, at) - truth).abs()).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
