import torch
from torch import nn


class PlateauStop:
    """Ends the training when the error has not fallen for a while, and keeps the weights of its best epoch."""

    def __init__(self, patience=6):
        self.patience = patience
        self.waited = 0
        self.lowest = float("inf")
        self.weights = None

    def update(self, error, network):
        if error < self.lowest:
            self.lowest = error
            self.weights = network.state_dict()  # expect: ESP214
            self.waited = 0
        else:
            self.waited += 1
        return self.waited >= self.patience


@torch.no_grad()
def error_on(network, batches):
    network.eval()
    errors = [nn.functional.l1_loss(network(x), y) for x, y in batches]
    network.train()
    return torch.stack(errors).mean().item()


def fit(network, batches, held_out, epochs=200):
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    stop = PlateauStop()
    for _ in range(epochs):
        for x, y in batches:
            optimizer.zero_grad()
            nn.functional.l1_loss(network(x), y).backward()
            optimizer.step()
        if stop.update(error_on(network, held_out), network):
            break
    network.load_state_dict(stop.weights)
    return network
