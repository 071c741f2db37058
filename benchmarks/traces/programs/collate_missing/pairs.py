import torch
from torch.utils.data import Dataset


class Pairs(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.full((4,), float(i)), i % 3


class ToBatch:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, items):
        inputs = torch.stack([x for x, _ in items]) * self.scale
        return {"inputs": inputs, "target": torch.tensor([y for _, y in items])}
