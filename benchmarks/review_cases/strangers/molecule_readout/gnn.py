"""Message passing for solubility of small molecules."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from scatter import degree, scatter_sum


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message = nn.Linear(2 * dim, dim)
        self.update = nn.GRUCell(dim, dim)

    def forward(self, h, edges):
        src, dst = edges
        m = F.relu(self.message(torch.cat([h[src], h[dst]], dim=1)))
        pooled = scatter_sum(m, dst, h.shape[0])  # expect: ESP104 @s
        return self.update(pooled / degree(dst, h.shape[0]).clamp(min=1).unsqueeze(1), h)


class Solubility(nn.Module):
    def __init__(self, atoms=40, dim=96, depth=3):
        super().__init__()
        self.embed = nn.Embedding(atoms, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, atoms, edges, molecule, count):
        h = self.embed(atoms)
        for layer in self.layers:
            h = layer(h, edges)
        return self.out(scatter_sum(h, molecule, count)).squeeze(1)
