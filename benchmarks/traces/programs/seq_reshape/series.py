import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Conf:
    batch_size = 16
    steps = 10
    channels = 3
    hidden = 20


class Series(nn.Module):
    def __init__(self, conf):
        super().__init__()
        self.conf = conf
        self.lift = nn.Linear(conf.channels, conf.hidden)
        self.head = nn.Linear(conf.steps * conf.hidden, 1)

    def forward(self, x):
        h = torch.relu(self.lift(x))
        h = h.view(self.conf.batch_size, -1)
        return self.head(h).squeeze(1)


def data(conf, n=100):
    x = torch.randn(n, conf.steps, conf.channels)
    return DataLoader(TensorDataset(x, x.mean((1, 2))), batch_size=conf.batch_size, shuffle=True)


def train(conf, epochs=1):
    model, loss_fn = Series(conf), nn.HuberLoss()
    opt = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        for x, y in data(conf):
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    train(Conf())
