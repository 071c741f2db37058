import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


def extract(paths, transform):
    backbone = nn.Sequential(*list(Net().body.children())[:-1])
    backbone.eval()

    def one(path):
        return backbone(transform(path)[None])[0]  # expect: ESP302|ESP303 @a

    return torch.stack([one(path) for path in paths])  # expect: ESP302|ESP303 @a
