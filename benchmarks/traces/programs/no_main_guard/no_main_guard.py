import torch
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.randn(32, 4))
loader = DataLoader(dataset, batch_size=8, num_workers=1, multiprocessing_context="spawn")
for (batch,) in loader:
    print(batch.sum())
