import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


def fit(job):
    job.model.train()
    for x, y in job.loaders["train"]:
        job.optimizer.zero_grad()
        nn.functional.cross_entropy(job.model(x), y).backward()
        job.optimizer.step()


@torch.no_grad()
def evaluate(job):
    job.model.eval()
    right = 0
    for x, y in job.loaders["test"]:
        right += (job.model(x).argmax(1) == y).sum()
    return right


PHASES = {"fit": fit, "evaluate": evaluate}


class Job:
    def __init__(self, loaders):
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loaders = loaders

    def run(self, phases):
        for phase in phases:
            print(phase, PHASES[phase](self))
