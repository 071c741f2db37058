import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


class Predictor:
    def __init__(self, model):
        self.model = model

    @classmethod
    def from_checkpoint(cls, path):
        model = Net()
        model.load_state_dict(torch.load(path, weights_only=True))
        return cls(model.eval())

    def predict(self, batch):
        with torch.inference_mode():
            logits = self.model(batch)
        return logits.softmax(-1).argmax(-1)


def score(loader, path):
    predictor = Predictor.from_checkpoint(path)
    right = 0
    for x, y in loader:
        right += (predictor.predict(x) == y).sum()
    return right
