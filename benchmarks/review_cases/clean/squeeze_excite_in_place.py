"""Squeeze and excitation, with in-place operations that are right."""
import torch
from torch import nn
import torch.nn.functional as F


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction=8):
        super().__init__()
        self.down = nn.Conv2d(channels, channels // reduction, 1)
        self.up = nn.Conv2d(channels // reduction, channels, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        s = F.relu_(self.down(s))
        gate = torch.sigmoid(self.up(s))
        y = x * gate
        y += x
        return y


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, 32, 3, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.se = SqueezeExcite(32)
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        h = self.norm(self.conv(x))
        h += 0.1
        h = F.relu(h, inplace=True)
        h = self.se(h)
        return self.head(h.mean((2, 3)))


@torch.no_grad()
def predict(model, x):
    model.eval()
    probs = model(x).softmax(dim=-1)
    probs *= 100
    return probs.round_()


def fit(model, loader, opt):
    model.train()
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
