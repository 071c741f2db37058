import torch
from torch import nn


class KeyValueMemory(nn.Module):
    def __init__(self, slots, key_size, value_size):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(slots, key_size))
        self.values = nn.Parameter(torch.randn(slots, value_size))

    def read(self, query):
        match = torch.einsum("btd,sd->bts", query, self.keys)
        return torch.einsum("bts,sv->btv", match.softmax(-1), self.values)


class Reader(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encode = nn.GRU(cfg["features"], cfg["width"], batch_first=True)
        self.memory = KeyValueMemory(cfg["slots"], cfg["key_size"], cfg["width"])
        self.out = nn.Linear(2 * cfg["width"], cfg["classes"])

    def forward(self, x):
        h, _ = self.encode(x)
        r = self.memory.read(h)
        return self.out(torch.cat([h, r], -1)[:, -1])
