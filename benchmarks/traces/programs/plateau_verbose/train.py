"""Fit a polynomial with a network."""
import argparse

import torch
from torch import nn

from schedule import make_optimizer, make_scheduler


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--scheduler", default="plateau", choices=["cosine", "plateau", "step"])
    parser.add_argument("--epochs", type=int, default=5)
    return parser.parse_args([])


class Net(nn.Module):
    """One hidden layer."""

    def __init__(self, width=32):
        super().__init__()
        self.hidden = nn.Linear(1, width)
        self.out = nn.Linear(width, 1)

    def forward(self, points):
        return self.out(torch.tanh(self.hidden(points)))


def validate(model, points, targets):
    with torch.no_grad():
        return nn.functional.mse_loss(model(points), targets).item()


def main():
    options = parse()
    torch.manual_seed(0)
    points = torch.linspace(-1, 1, 200).unsqueeze(1)
    targets = points**3 - 0.5 * points
    model = Net()
    optimizer = make_optimizer(model, options.optimizer, 1e-2)
    scheduler = make_scheduler(optimizer, options.scheduler, options.epochs)
    for epoch in range(options.epochs):
        for part in torch.randperm(200).split(50):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(points[part]), targets[part])
            loss.backward()
            optimizer.step()
        metric = validate(model, points, targets)
        scheduler.step(metric) if options.scheduler == "plateau" else scheduler.step()
        print(epoch, metric)


if __name__ == "__main__":
    main()
