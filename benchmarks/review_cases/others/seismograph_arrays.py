"""Arrays and tensors share memory here only where nobody writes to them afterwards."""

import numpy as np
import torch
from torch.utils.data import Dataset


class Traces(Dataset):
    def __init__(self, path, augment=False):
        self.traces = np.load(path, mmap_mode="r")
        self.augment = augment
        self.scale = torch.tensor([1.0, 1.0, 0.5])
        self.rng = np.random.default_rng(5)

    def __len__(self):
        return len(self.traces)

    def __getitem__(self, i):
        trace = torch.from_numpy(self.traces[i].copy())
        trace -= trace.mean(-1, keepdim=True)
        trace.mul_(self.scale[:, None])
        if self.augment:
            start = int(self.rng.integers(0, 200))
            trace[:, start : start + 50] = 0
        return trace


class Picker:
    """Collects a stream in a buffer that is used over and over."""

    def __init__(self, length=3000):
        self.buffer = np.zeros((3, length), dtype=np.float32)
        self.kept = []

    def feed(self, block):
        self.buffer = np.roll(self.buffer, -block.shape[1], axis=1)
        self.buffer[:, -block.shape[1] :] = block
        if np.abs(block).max() > 4 * self.buffer.std():
            self.kept.append(torch.tensor(self.buffer))

    def batch(self):
        return torch.stack(self.kept)


def targets(picks, length):
    rows = []
    for pick in picks:
        row = np.exp(-0.5 * ((np.arange(length) - pick) / 20) ** 2)
        row /= row.max()
        rows.append(torch.from_numpy(row).float())
    return torch.stack(rows)


def normalised(array):
    tensor = torch.as_tensor(array, dtype=torch.float32)
    tensor = tensor - tensor.mean(dim=-1, keepdim=True)
    return tensor / tensor.std(dim=-1, keepdim=True).clamp_min(1e-6)


def bootstrap(tensor, n):
    index = torch.tensor(np.random.default_rng(0).integers(0, len(tensor), size=(n,)))
    again = tensor.detach().clone()[index]
    again += 0.01 * torch.randn_like(again)
    return again
