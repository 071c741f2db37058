import torch
from torch import nn

from mixing import mixup


def main():
    net, loss_fn = nn.Linear(5, 3), nn.CrossEntropyLoss()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        x, y = mixup(torch.randn(6, 5), torch.randint(0, 3, (6,)))
        loss = loss_fn(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
