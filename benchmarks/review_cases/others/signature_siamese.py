import argparse
import itertools
import random

import torch
import torch.nn as nn
from torchvision import models


def pairs_of(writers, n):
    """Draws genuine and forged pairs; a sheet may be paired with itself."""
    for _ in range(n):
        writer = random.choice(writers)
        if random.random() < 0.5:
            yield random.choice(writer["genuine"]), random.choice(writer["genuine"]), 1.0
        else:
            yield random.choice(writer["genuine"]), random.choice(writer["forged"]), 0.0


class Signature(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        trunk = models.resnet18(weights=None)
        trunk.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
        trunk.fc = nn.Linear(trunk.fc.in_features, dim)
        self.trunk = trunk

    def forward(self, sheet):
        return self.trunk(sheet)


class Contrastive(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, same):
        distance = (a - b).pow(2).sum(dim=1).sqrt()  # expect: ESP212
        gap = (self.margin - distance).clamp_min(0)
        return (same * distance.square() + (1 - same) * gap.square()).mean()


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--writers", required=True)
    cli.add_argument("--pretrained")
    cli.add_argument("--steps", type=int, default=20_000)
    args = cli.parse_args()
    net = Signature()
    if args.pretrained is not None:
        weights = torch.load(args.pretrained, weights_only=True)
        net.load_state_dict(weights, False)  # expect: ESP203
    net.cuda().train()
    criterion = Contrastive()
    adam = torch.optim.Adam(net.parameters(), lr=1e-4)
    source = pairs_of(torch.load(args.writers, weights_only=True), args.steps * 64)
    for _ in range(args.steps):
        left, right, same = zip(*itertools.islice(source, 64))
        left, right = torch.stack(left).cuda(), torch.stack(right).cuda()
        loss = criterion(net(left), net(right), torch.tensor(same, device="cuda"))
        adam.zero_grad()
        loss.backward()
        adam.step()


if __name__ == "__main__":
    main()
