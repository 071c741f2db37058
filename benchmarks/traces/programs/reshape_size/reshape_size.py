import torch
from torch import nn

net = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def evaluate(images):
    flat = images.view(-1, 784)
    return net(flat).argmax(1)


evaluate(torch.rand(10, 1, 32, 30))
