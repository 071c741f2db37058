import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Annealed(nn.Module):
    """Gumbel-softmax codes; the temperature is an attribute that changes at every step."""

    def __init__(self, d=64, codes=32):
        super().__init__()
        self.enc, self.dec = nn.Linear(d, codes), nn.Linear(codes, d)
        self.step = 0

    def forward(self, x):
        self.step += 1  # expect: ESP506
        tau = max(0.5, math.exp(-1e-4 * self.step))
        return self.dec(F.gumbel_softmax(self.enc(x), tau=tau))


def train(loader, device="cuda"):
    model = torch.compile(Annealed().to(device))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    model.train()
    for x in loader:
        x = x.to(device)
        loss = F.mse_loss(model(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
