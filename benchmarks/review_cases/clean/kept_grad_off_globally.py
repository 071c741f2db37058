import torch
from torch import nn
torch.set_grad_enabled(False)


def distances(loader):
    encoder = nn.Sequential(nn.Linear(3, 3), nn.Dropout())
    encoder.eval()
    total = 0
    for x in loader:
        total += encoder(x).argmax()
    return total
