"""Contrastive learning of image embeddings (SimCLR)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Projection(nn.Module):
    def __init__(self, encoder, dim, out=128):
        super().__init__()
        self.encoder = encoder
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, out))

    def forward(self, x):
        z = self.mlp(self.encoder(x))
        return z / z.norm(dim=1, keepdim=True)  # expect: ESP211


def info_nce(z1, z2, temperature=0.1):
    z = torch.cat([z1, z2])
    sim = z @ z.t() / temperature
    n = z1.size(0)
    sim.fill_diagonal_(float("-inf"))
    target = torch.arange(2 * n, device=z.device).roll(n)
    return F.cross_entropy(sim, target)


def pretrain(model, loader, optimizer, scheduler, device, epochs):
    model.train()
    for epoch in range(epochs):
        for (v1, v2), _ in loader:
            v1, v2 = v1.to(device, non_blocking=True), v2.to(device, non_blocking=True)
            loss = info_nce(model(v1), model(v2))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        print(epoch, loss.item())
