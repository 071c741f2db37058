import torch
from torch import nn
from torch.utils.data import DataLoader

from series_data import Rolling


def main(size=16):
    series = torch.randn(100).cumsum(0)
    feed = DataLoader(Rolling(series, size, stride=8), batch_size=4)
    net = nn.Sequential(nn.Linear(size - 1, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = torch.optim.Adam(net.parameters())
    for block in feed:
        loss = (net(block[:, :-1]).squeeze(1) - block[:, -1]).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
