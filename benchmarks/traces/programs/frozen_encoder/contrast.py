import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, n_in=10, n_out=6):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 20), nn.ReLU(), nn.Linear(20, n_out))

    @torch.no_grad()
    def embed(self, x):
        return F.normalize(self.net(x), dim=-1)

    def forward(self, x):
        return self.embed(x)


def info_nce(a, b, tau=0.1):
    logits = a @ b.t() / tau
    return F.cross_entropy(logits, torch.arange(len(a)))


class Pretraining:
    def __init__(self, encoder, lr=1e-3):
        self.encoder = encoder
        self.opt = torch.optim.AdamW(encoder.parameters(), lr=lr)

    def step(self, view_a, view_b):
        loss = info_nce(self.encoder(view_a), self.encoder(view_b))
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return float(loss)
