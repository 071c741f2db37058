import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


class Predictor:
    def __init__(self, path):
        self.model = Net()
        self.model.load_state_dict(torch.load(path, weights_only=True))
        self.model.eval()

    @torch.no_grad()
    def __call__(self, row):
        return self.model(row[None]).argmax(1)


def main(rows):
    predictor = Predictor("net.pt")
    answers = []
    for row in rows:
        answers.append(predictor(row))  # allow: ESP408
    return answers
