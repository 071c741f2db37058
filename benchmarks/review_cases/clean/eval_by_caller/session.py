from contextlib import contextmanager

import torch
import torch.nn as nn
import torch.nn.functional as F

from metrics import error_rate


@contextmanager
def evaluating(net: nn.Module):
    """Temporarily switch to evaluation mode, without gradients."""
    was_training = net.training
    net.eval()
    try:
        with torch.no_grad():
            yield net
    finally:
        net.train(was_training)


class Session:
    def __init__(self, net, train_batches, dev_batches, device="cuda"):
        self.net, self.device = net.to(device), device
        self.train_batches, self.dev_batches = train_batches, dev_batches
        self.optimizer = torch.optim.RAdam(net.parameters(), lr=1e-3)

    def one_epoch(self):
        for x, y in self.train_batches:
            self.optimizer.zero_grad()
            F.cross_entropy(self.net(x.to(self.device)), y.to(self.device)).backward()
            self.optimizer.step()

    def run(self, epochs):
        self.net.train()
        for epoch in range(epochs):
            self.one_epoch()
            with evaluating(self.net) as net:
                print(epoch, error_rate(net, self.dev_batches, self.device).item())


def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(), nn.Linear(512, 10))
