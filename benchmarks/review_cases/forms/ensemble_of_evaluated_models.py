import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


def load_all(paths):
    models = []
    for path in paths:
        model = Net()
        model.load_state_dict(torch.load(path, weights_only=True))
        model.eval()
        models.append(model)
    return models


def vote(paths, loader):
    models = load_all(paths)
    votes = []
    for x, _ in loader:
        scores = sum(model(x).softmax(-1) for model in models)  # expect: ESP302 @a
        votes.append(scores.argmax(-1))  # expect: ESP302 @a
    return votes
