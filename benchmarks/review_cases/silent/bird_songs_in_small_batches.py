"""Trains a classifier of bird songs in batches that fit a small GPU."""

import torch
import torch.nn.functional as F


def train(net, loader, accumulate=8):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    net.train()
    optimizer.zero_grad(set_to_none=True)
    for number, (songs, birds) in enumerate(loader, start=1):
        loss = F.cross_entropy(net(songs), birds)
        loss.backward()  # expect: ESP224
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
