import torch
from torch import nn

from acoustic import TDNN
from frontend import Frontend


class Spotter(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.front = Frontend()
        self.net = TDNN(classes=classes)

    def forward(self, wave):
        return self.net(self.front(wave))


def train(batches=2):
    model = Spotter(4)
    sgd = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(batches):
        loss = nn.functional.cross_entropy(model(torch.randn(3, 1600)), torch.tensor([0, 3, 1]))
        sgd.zero_grad()
        loss.backward()
        sgd.step()


if __name__ == "__main__":
    train()
