import torch
from torch import nn

from swap import Average


def fit(steps=2):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    average, opt = Average(model), torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = model(torch.randn(6, 4)).pow(2).mean()
        average.update()
        average.apply()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    fit()
