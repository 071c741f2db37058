"""Equivariant-ish point cloud network; pairwise distances enter the loss."""
import torch
import torch.nn as nn


class EdgeConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * cin + 1, cout), nn.SiLU(), nn.Linear(cout, cout))

    def forward(self, pos, h):
        n = pos.size(1)
        diff = pos[:, :, None] - pos[:, None]
        dist = torch.sqrt((diff**2).sum(-1, keepdim=True))  # expect: ESP212
        pair = torch.cat([h[:, :, None].expand(-1, -1, n, -1), h[:, None].expand(-1, n, -1, -1), dist], dim=-1)
        return self.mlp(pair).mean(2)


class Energy(nn.Module):
    def __init__(self, elements=10, dim=64):
        super().__init__()
        self.emb = nn.Embedding(elements, dim)
        self.conv1, self.conv2 = EdgeConv(dim, dim), EdgeConv(dim, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, z, pos):
        h = self.emb(z)
        h = h + self.conv1(pos, h)
        h = h + self.conv2(pos, h)
        return self.out(h).sum(dim=(1, 2))


def energy_and_forces(model, z, pos):
    pos = pos.detach().requires_grad_(True)
    energy = model(z, pos)
    forces = -torch.autograd.grad(energy.sum(), pos, create_graph=True)[0]
    return energy, forces


def train(model, loader, opt, device):
    model.train()
    for z, pos, e, f in loader:
        z, pos, e, f = (t.to(device) for t in (z, pos, e, f))
        pe, pf = energy_and_forces(model, z, pos)
        loss = (pe - e).pow(2).mean() + 100 * (pf - f).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
