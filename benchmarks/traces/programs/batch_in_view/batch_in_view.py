import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 8
net = nn.Linear(12, 2)


def step(x):
    return net(x.view(BATCH, 12))


for (x,) in DataLoader(TensorDataset(torch.randn(20, 3, 4)), batch_size=BATCH):
    step(x)
