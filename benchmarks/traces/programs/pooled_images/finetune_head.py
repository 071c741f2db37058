import torch
from torch import nn

from backbone import Backbone


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = Backbone()
        self.head = nn.Linear(self.features.width, classes)

    def forward(self, x):
        return self.head(self.features(x))


def run():
    model = Classifier(5)
    opt = torch.optim.SGD(model.head.parameters(), lr=0.1)
    loss = nn.functional.cross_entropy(model(torch.rand(4, 3, 32, 32)), torch.tensor([0, 1, 4, 2]))
    opt.zero_grad()
    loss.backward()
    opt.step()


if __name__ == "__main__":
    run()
