import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
data = TensorDataset(torch.randn(33, 4), torch.randn(33, 1))
loader = DataLoader(data, batch_size=16, shuffle=True)
for x, y in loader:
    pred = net(x)
    nn.functional.mse_loss(pred, y).backward()
