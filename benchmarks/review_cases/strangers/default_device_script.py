"""Everything lives on the device that is set once at the top."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")


class Burgers(nn.Module):
    """Physics-informed network for the viscous Burgers equation."""

    def __init__(self, width=20, depth=8):
        super().__init__()
        sizes = [2, *[width] * depth, 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x, t):
        h = torch.cat([x, t], dim=1)
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        return self.layers[-1](h)


def derivative(u, x):
    return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]


def residual(net, x, t, viscosity=0.01 / math.pi):
    x, t = x.requires_grad_(True), t.requires_grad_(True)
    u = net(x, t)
    ux = derivative(u, x)
    return derivative(u, t) + u * ux - viscosity * derivative(ux, x)


def train(steps=5000, points=2000):
    net = Burgers()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    x0 = torch.linspace(-1, 1, 200).unsqueeze(1)
    u0 = -torch.sin(math.pi * x0)
    tb = torch.linspace(0, 1, 100).unsqueeze(1)
    edges = torch.ones_like(tb)
    for step in range(steps):
        x, t = 2 * torch.rand(points, 1) - 1, torch.rand(points, 1)
        start = F.mse_loss(net(x0, torch.zeros_like(x0)), u0)
        border = net(-edges, tb).square().mean() + net(edges, tb).square().mean()
        loss = residual(net, x, t).square().mean() + start + border
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            print(step, loss.item())
    return net


if __name__ == "__main__":
    train(2, 10)
