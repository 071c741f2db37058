import torch
from torch import nn


def mlp(a, b, c):
    return nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c))


class Message(nn.Module):
    def __init__(self, node, edge, hidden):
        super().__init__()
        self.phi = mlp(2 * node, hidden, hidden)
        self.psi = mlp(node + hidden, hidden, node)

    def forward(self, x, index, attr):
        a, b = index
        m = self.phi(torch.cat([x[a], x[b], attr], -1))
        total = x.new_zeros(len(x), m.shape[-1]).index_add_(0, b, m)
        return x + self.psi(torch.cat([x, total], -1))


class Molecule(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.rounds = nn.ModuleList(Message(opt.node, opt.edge, opt.hidden) for _ in range(opt.rounds))
        self.readout = nn.Linear(opt.node, 1)

    def forward(self, x, index, attr):
        for step in self.rounds:
            x = step(x, index, attr)
        return self.readout(x.sum(0))
