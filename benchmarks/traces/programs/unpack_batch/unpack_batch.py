import torch
from torch.utils.data import DataLoader, TensorDataset


def run_epoch(loader, model):
    for x, y in loader:
        model(x)


ds = TensorDataset(torch.randn(6, 3), torch.randn(6, 1), torch.ones(6))
run_epoch(DataLoader(ds, batch_size=2), torch.nn.Linear(3, 1))
