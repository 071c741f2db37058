import torch
from torch import nn

net = nn.Linear(4, 3)


def accuracy_loss(x, y):
    pred = net(x).argmax(dim=1).float()
    return (pred - y).abs().mean()


loss = accuracy_loss(torch.randn(5, 4), torch.zeros(5))
loss.backward()
