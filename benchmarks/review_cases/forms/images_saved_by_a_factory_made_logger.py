import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


class Gallery:
    def __init__(self, limit):
        self.images, self.limit = [], limit

    def show(self, **images):
        for name, image in images.items():
            self.images.append((name, image[:4]))  # expect: ESP303 @a


def make_logger(kind, limit):
    kinds = {"gallery": Gallery}
    return kinds[kind](limit)


def train(loader):
    net = Net()
    logger = make_logger("gallery", 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        made = net(x)
        optimizer.zero_grad()
        nn.functional.mse_loss(made, y).backward()
        optimizer.step()
        logger.show(made=made)  # expect: ESP303 @a
