import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


class Learner:
    def __init__(self, config, loader, held_out):
        self.config = config
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader, self.held_out = loader, held_out

    def train_epoch(self):
        self.model.train()
        for x, y in self.loader:
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()

    @torch.no_grad()
    def test_epoch(self):
        return sum((self.model(x).argmax(1) == y).sum() for x, y in self.held_out)  # expect: ESP102

    def run(self):
        for _ in range(5):
            for name in ("train", "test"):
                print(getattr(self, f"{name}_epoch")())
