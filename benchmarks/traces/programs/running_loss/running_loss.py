import torch
from torch import nn

net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def fit(batches):
    running = torch.zeros(1)
    for x, y in batches:
        running = 0.9 * running + 0.1 * (net(x) - y).pow(2).mean()
        opt.zero_grad()
        running.backward()
        opt.step()


fit([(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(3)])
