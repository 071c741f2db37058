import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


class Validate:
    def __init__(self, loader):
        self.loader = loader

    def on_epoch_end(self, trainer):
        trainer.model.eval()
        with torch.no_grad():
            print(sum((trainer.model(x).argmax(1) == y).sum() for x, y in self.loader))


class Trainer:
    def __init__(self, loader, callbacks):
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader, self.callbacks = loader, callbacks

    def notify(self, name):
        for callback in self.callbacks:
            getattr(callback, name)(self)

    def fit(self):
        for _ in range(5):
            self.model.train()
            for x, y in self.loader:
                self.optimizer.zero_grad()
                nn.functional.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
            self.notify("on_epoch_end")


def main(loader, held_out):
    Trainer(loader, [Validate(held_out)]).fit()
