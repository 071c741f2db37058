import torch
from torch import nn

model = nn.Sequential(nn.Linear(5, 1), nn.Sigmoid())
criterion = nn.BCELoss()


def step(x, y):
    pred = model(x)
    return criterion(pred, y)


step(torch.randn(16, 5), torch.randint(0, 2, (16,)).float())
