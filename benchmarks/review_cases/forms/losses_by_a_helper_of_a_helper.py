import torch
from torch import nn
class Board:
    def __init__(self):
        self._series = {"train": []}

    def log(self, split, value):
        self._push(split, value)

    def _push(self, split, value):
        self._series[split].append(value)  # expect: ESP301 @a


class Job:
    def __init__(self, config):
        self.config = config
        self.board = Board()
        self.model = self.build_model()
        self.optimizer = self.build_optimizer()

    def build_model(self):
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))

    def build_optimizer(self):
        return torch.optim.Adam(self.model.parameters(), lr=self.config["lr"])

    def run(self, loader):
        for batch in loader:
            self.one(batch)

    def one(self, batch):
        self.optimizer.zero_grad()
        loss = self.compute(batch)
        loss.backward()
        self.optimizer.step()
        self.board.log("train", loss)  # expect: ESP301 @a

    def compute(self, batch):
        return self.model(batch).abs().mean()
