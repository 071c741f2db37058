import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class NeRF(nn.Module):
    def __init__(self, d=60, w=256, depth=8):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(d, w)] + [nn.Linear(w, w) for _ in range(depth - 1)])
        self.sigma, self.rgb = nn.Linear(w, 1), nn.Linear(w, 3)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return torch.sigmoid(self.rgb(x)), F.softplus(self.sigma(x))


def render(model, points, deltas):
    rgb, sigma = model(points)
    alpha = 1 - torch.exp(-sigma.squeeze(-1) * deltas)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
    return ((alpha * trans)[..., None] * rgb).sum(1)


def train(rays, iterations=200_000):
    model = NeRF().cuda()
    opt = torch.optim.Adam(model.parameters(), 5e-4)
    psnrs = []
    for i in range(iterations):
        points, deltas, target = next(rays)
        loss = F.mse_loss(render(model, points.cuda(), deltas.cuda()), target.cuda())
        if torch.isnan(loss).item():  # expect: ESP305
            sys.exit(f"nan at {i}")
        opt.zero_grad()
        loss.backward()
        opt.step()
        psnrs.append(-10 * torch.log10(loss.detach()))
    return torch.stack(psnrs)
