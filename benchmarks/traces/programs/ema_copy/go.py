import torch
from torch import nn

from ema import EMA
from vit import Net


def go(epochs=2, warm=1):
    net, ema = Net(), None
    opt = torch.optim.Adam(net.parameters())
    for epoch in range(epochs):
        if epoch >= warm and ema is None:
            ema = EMA(net)
        for _ in range(3):
            x, y = torch.randn(4, 6, 8), torch.randint(0, 3, (4,))
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if ema is not None:
                ema.update(net)


if __name__ == "__main__":
    go()
