import torch
from torch.utils.data import TensorDataset


def windows(series, size, horizon):
    x = series.unfold(0, size, 1)
    y = series[size + horizon - 1 :]
    return TensorDataset(x, y)


windows(torch.arange(50.0), size=10, horizon=3)
