import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def update(network, optimizer, criterion, batch):
    noisy, clean = batch
    loss = criterion(network(noisy), clean)
    loss.backward()  # expect: ESP101
    nn.utils.clip_grad_norm_(network.parameters(), 5.0)
    optimizer.step()
    return loss.detach()


def process(network, optimizer, criterion, batch, state):
    state["seen"] += len(batch[0])
    state["last"] = update(network, optimizer, criterion, batch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    noisy = torch.randn(512, 40)
    pairs = TensorDataset(noisy, noisy * 0.5)
    network = nn.Sequential(nn.Linear(40, 80), nn.ReLU(), nn.Linear(80, 40))
    optimizer = torch.optim.Adam(network.parameters())
    state = {"seen": 0, "last": None}
    for _ in range(options.epochs):
        for batch in DataLoader(pairs, batch_size=64, shuffle=True):
            process(network, optimizer, nn.MSELoss(), batch, state)
    print(state)


if __name__ == "__main__":
    main()
