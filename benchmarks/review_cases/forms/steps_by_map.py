import torch
from torch import nn
class Job:
    def __init__(self):
        self.model = nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def __call__(self, batch):
        loss = self.model(batch).square().mean()
        loss.backward()  # expect: ESP101 @a
        self.optimizer.step()  # expect: ESP101 @a
        return loss.item()  # allow: ESP305


def main(loader):
    job = Job()
    return list(map(job, loader))  # expect: ESP101 @a
