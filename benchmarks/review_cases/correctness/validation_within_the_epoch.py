"""Train a tabular network, validating every few hundred steps."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class TabularNet(nn.Module):
    def __init__(self, features, hidden=256):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.3),
        )
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total, count = 0.0, 0
    for x, y in loader:
        pred = model(x)
        total += F.mse_loss(pred, y, reduction="sum").item()
        count += y.numel()
    return total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--eval-every", type=int, default=200)
    args = parser.parse_args()
    x, y = torch.randn(4096, 20), torch.randn(4096)
    train_loader = DataLoader(TensorDataset(x[:3500], y[:3500]), batch_size=64, shuffle=True)
    valid_loader = DataLoader(TensorDataset(x[3500:], y[3500:]), batch_size=256)
    model = TabularNet(20)
    optimizer = torch.optim.Adam(model.parameters())
    step = 0
    model.train()
    for epoch in range(args.epochs):
        for xb, yb in train_loader:
            loss = F.mse_loss(model(xb), yb)  # expect: ESP103
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % args.eval_every == 0:
                print(step, validate(model, valid_loader))


if __name__ == "__main__":
    main()
