import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, random_split

from sensors import SensorLog


class Forecaster(nn.Module):
    def __init__(self, window, hidden):
        super().__init__()
        self.inp = nn.Linear(window, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, w):
        h = torch.tanh(self.inp(w))
        h = h + torch.tanh(self.mid(h))
        return self.out(h).squeeze(-1)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--window", type=int, default=8)
    p.add_argument("--hidden", type=int, default=24)
    p.add_argument("--epochs", type=int, default=2)
    return p.parse_args()


def main():
    args = parse()
    train, test = random_split(SensorLog(window=args.window), [0.8, 0.2])
    model = Forecaster(args.window, args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    mse = nn.MSELoss()
    for _ in range(args.epochs):
        for window, following in DataLoader(train, batch_size=16, shuffle=True):
            prediction = model(window)
            loss = mse(prediction, following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
