"""Train the forecaster on a synthetic series."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from forecaster import Forecaster, make_windows
from options import build_parser


def synthetic_series(hours, channels):
    steps = torch.arange(hours, dtype=torch.float32)
    base = torch.sin(steps / 24 * 6.2831)
    return torch.stack([base + 0.1 * torch.randn(hours) for _ in range(channels)], dim=1)


def train(args):
    series = synthetic_series(400, 3)
    inputs, targets = make_windows(series, args.window)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=args.batch_size, shuffle=True)
    model = Forecaster(series.shape[1], args.hidden, args.layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.MSELoss()
    for epoch in range(args.epochs):
        total = 0.0
        for batch, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(batch), target)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total / len(loader))


if __name__ == "__main__":
    train(build_parser().parse_args([]))
