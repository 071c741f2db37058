"""Metric learning on sets, with distances and deviations taken by hand."""
import torch
import torch.nn as nn


class SetStats(nn.Module):
    def forward(self, x):
        mean = x.mean(1)
        var = (x - mean.unsqueeze(1)).pow(2).mean(1)
        std = var.sqrt()  # expect: ESP212
        return torch.cat([mean, std], dim=-1)


class Net(nn.Module):
    def __init__(self, d=32, out=16):
        super().__init__()
        self.phi, self.stats, self.rho = nn.Linear(d, 64), SetStats(), nn.Linear(128, out)

    def forward(self, sets):
        return self.rho(self.stats(torch.relu(self.phi(sets))))


def contrastive(a, b, same, margin=1.0):
    dist = torch.sqrt(torch.sum((a - b) ** 2, dim=1))  # expect: ESP212
    return (same * dist**2 + (1 - same) * torch.relu(margin - dist) ** 2).mean()


def correlation(pred, target):
    p, t = pred - pred.mean(), target - target.mean()
    return (p * t).sum() / (p.norm() * t.norm())  # expect: ESP211


def step(net, batch, opt):
    a, b, same, score = batch
    za, zb = net(a), net(b)
    loss = contrastive(za, zb, same) - 0.1 * correlation((za * zb).sum(1), score)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()
