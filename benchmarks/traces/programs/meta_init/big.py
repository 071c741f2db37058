import torch
from torch import nn


class Big(nn.Module):
    def __init__(self, dim=16, classes=5):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.body(x))


def empty_model(**sizes):
    with torch.device("meta"):
        return Big(**sizes)


def load_body(model, state):
    missing = model.load_state_dict(state, strict=False, assign=True)
    return model, missing
