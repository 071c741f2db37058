import torch
from torch import nn
def distances(loader):
    encoder = nn.Sequential(nn.Linear(3, 3), nn.Dropout())
    encoder.requires_grad_(False)
    encoder.eval()
    total = 0
    for x in loader:
        total += encoder(x).argmax()
    return total
