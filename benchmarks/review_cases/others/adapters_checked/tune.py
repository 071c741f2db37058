import logging

import torch
import torch.nn as nn

from restore import verify


class Adapter(nn.Module):
    def __init__(self, d, r=8):
        super().__init__()
        self.down, self.up = nn.Linear(d, r), nn.Linear(r, d)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.adapter = Adapter(d)

    def forward(self, x):
        return self.adapter(x + self.ff(x))


class Tuned(nn.Module):
    def __init__(self, d=128, depth=3, labels=4):
        super().__init__()
        self.layers = nn.Sequential(*(Layer(d) for _ in range(depth)))
        self.head = nn.Linear(d, labels)

    def forward(self, x):
        return self.head(self.layers(x).mean(1))


def start_from(model, path):
    base = torch.load(path, map_location="cpu", weights_only=True)
    verify(model.load_state_dict(base, strict=False), may_miss=("head", "layers.0.adapter", "layers.1.adapter", "layers.2.adapter"))
    for name, p in model.named_parameters():
        p.requires_grad_("adapter" in name or name.startswith("head"))
    return model


def merge_overrides(model, overrides):
    missing, unexpected = model.load_state_dict(overrides, strict=False)
    if unexpected:
        logging.warning("unknown weights %s; %d kept as they were", unexpected, len(missing))


def train(model, loader):
    opt = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    model.train()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
