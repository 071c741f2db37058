import torch
from torch.utils.data import DataLoader, TensorDataset


def make_loader(rows, size):
    data = TensorDataset(torch.randn(rows, 6), torch.randint(0, 2, (rows,)))
    return DataLoader(data, batch_size=size)
