"""Calls the recurrent layer of the library instead of its steps."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(16, 24, batch_first=True)

    def forward(self, x):
        cell = self.cell
        h = c = x.new_zeros(x.shape[0], 24)
        seen = []
        for step in range(x.shape[1]):
            gates = x[:, step] @ cell.weight_ih_l0.T + cell.bias_ih_l0 + h @ cell.weight_hh_l0.T + cell.bias_hh_l0
            i, f, g, o = gates.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            seen.append(h)
        return torch.stack(seen, 1)


class Fast(Net):
    def forward(self, x):
        return self.cell(x)[0].contiguous()


def get_inputs():
    return (torch.randn(8, 12, 16),)


def baseline():
    return Net()


def candidate():
    return Fast()


EXPECTED = "right"
