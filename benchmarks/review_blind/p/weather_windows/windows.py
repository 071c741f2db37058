"""Sliding-window dataset for multivariate weather series."""
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


@dataclass
class WindowSpec:
    context: int = 168
    horizon: int = 24
    stride: int = 1


class Standardizer:
    def fit(self, arr):
        self.mean = arr.mean(axis=0, keepdims=True)
        self.std = arr.std(axis=0, keepdims=True)
        self.std[self.std < 1e-6] = 1.0
        return self

    def transform(self, arr):
        return (arr - self.mean) / self.std

    def inverse(self, arr, col):
        return arr * self.std[0, col] + self.mean[0, col]


class WindowDataset(Dataset):
    def __init__(self, arr, spec, target_col):
        self.arr = torch.from_numpy(arr.astype(np.float32))
        self.spec, self.target_col = spec, target_col
        span = spec.context + spec.horizon
        self.starts = np.arange(0, len(arr) - span + 1, spec.stride)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = int(self.starts[i])
        m = s + self.spec.context
        return self.arr[s:m], self.arr[m:m + self.spec.horizon, self.target_col]


def split_bounds(n, val=0.1, test=0.2):
    a = int(n * (1 - val - test))
    return a, int(n * (1 - test))


def build(raw, spec, target_col, batch):
    scaler = Standardizer()
    values = scaler.fit(raw).transform(raw)
    a, b = split_bounds(len(values))
    parts = {
        "train": values[:a],
        "val": values[a - spec.context:b],
        "test": values[b - spec.context:],
    }
    loaders = {
        k: DataLoader(WindowDataset(v, spec, target_col), batch, shuffle=k == "train", num_workers=2)
        for k, v in parts.items()
    }
    return loaders, scaler
