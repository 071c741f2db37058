"""Anomaly detection with an autoencoder and early stopping."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EarlyStopping:
    """Stops if the validation loss does not fall for some epochs."""

    def __init__(self, patience=3, delta=0.0):
        self.patience = patience
        self.delta = delta
        self.counter = 0
        self.best = np.Inf
        self.stop = False

    def __call__(self, loss):
        if loss < self.best - self.delta:
            self.best = loss
            self.counter = 0
        else:
            self.counter += 1
            self.stop = self.counter >= self.patience


class Autoencoder(nn.Module):
    """Compresses readings to a few numbers."""

    def __init__(self, channels, code=3):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(channels, 16), nn.ReLU(), nn.Linear(16, code))
        self.decode = nn.Sequential(nn.Linear(code, 16), nn.ReLU(), nn.Linear(16, channels))

    def forward(self, readings):
        return self.decode(self.encode(readings))


def make_data(count, channels):
    generator = np.random.default_rng(0)
    base = generator.normal(size=(count, 1))
    readings = np.repeat(base, channels, axis=1) + 0.1 * generator.normal(size=(count, channels))
    return torch.from_numpy(readings.astype(np.float32))


def evaluate(model, readings):
    model.eval()
    with torch.no_grad():
        loss = nn.functional.mse_loss(model(readings), readings)
    model.train()
    return loss.item()


def main():
    torch.manual_seed(0)
    readings = make_data(300, 8)
    train_part, valid_part = readings[:240], readings[240:]
    loader = DataLoader(TensorDataset(train_part), batch_size=32, shuffle=True)
    model = Autoencoder(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    stopping = EarlyStopping(patience=2)
    for epoch in range(10):
        for (batch,) in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch), batch)
            loss.backward()
            optimizer.step()
        stopping(evaluate(model, valid_part))
        print(epoch, stopping.best)
        if stopping.stop:
            break


if __name__ == "__main__":
    main()
