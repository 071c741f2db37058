import math

import torch
from torch.utils.data import Dataset

PRECISION = torch.float64


class SensorLog(Dataset):
    """Windows of readings and the reading that follows."""

    def __init__(self, length=64, window=8):
        wave = [math.sin(0.3 * t) for t in range(length)]
        self.readings = torch.tensor(wave, dtype=PRECISION)
        self.window = window

    def __len__(self):
        return len(self.readings) - self.window

    def __getitem__(self, t):
        return self.readings[t : t + self.window], self.readings[t + self.window]
