"""Streams meter readings from a folder of CSV files."""

import csv
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Readings(IterableDataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).glob("*.csv"))

    def __iter__(self):  # expect: ESP222
        for path in self.files:
            with path.open() as source:
                for row in csv.reader(source):
                    yield torch.tensor([float(value) for value in row])


class Windows(Dataset):
    def __init__(self, series, size):
        self.series, self.size = series, size
        self.rng = np.random.default_rng(7)  # expect: ESP223

    def __len__(self):
        return 10_000

    def __getitem__(self, _):
        start = self.rng.integers(len(self.series) - self.size)
        return self.series[start : start + self.size]


def loaders(folder, series):
    stream = DataLoader(Readings(folder), batch_size=64, num_workers=4, pin_memory=True)
    return stream, DataLoader(Windows(series, 48), batch_size=64, num_workers=4, pin_memory=True)
