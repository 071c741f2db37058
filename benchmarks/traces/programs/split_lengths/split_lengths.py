import torch
from torch.utils.data import TensorDataset, random_split

full = TensorDataset(torch.randn(103, 2))
n_train = int(0.8 * len(full))
n_val = int(0.2 * len(full))
train, val = random_split(full, [n_train, n_val])
