import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


def fit(job):
    job.model.train()
    for x, y in job.loader:
        job.optimizer.zero_grad()
        nn.functional.cross_entropy(job.model(x), y).backward()
        job.optimizer.step()


@torch.no_grad()
def score(job):
    job.model.eval()
    return sum((job.model(x).argmax(1) == y).sum() for x, y in job.held_out)


class Job:
    phases = [fit, score]

    def __init__(self, loader, held_out):
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader, self.held_out = loader, held_out

    def run(self):
        for _ in range(5):
            for phase in (fit, score):
                print(phase(self))
