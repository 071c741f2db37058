import math

import torch
import torch.nn as nn
from torch.utils.data import Dataset


class LoadSeries(Dataset):
    """Windows over the hourly load of a substation, as a tensor of (hours, features)."""

    def __init__(self, series: torch.Tensor, history: int = 168) -> None:
        self.series, self.history = series, history

    def __len__(self) -> int:
        return len(self.series) - self.history

    def __getitem__(self, start: int):
        window = self.series[start : start + self.history]
        target = torch.tensor(self.series[start + self.history, 0], dtype=torch.float32)  # expect: ESP206
        return window, target


class MixtureDensity(nn.Module):
    def __init__(self, features: int, hidden: int = 64, parts: int = 5) -> None:
        super().__init__()
        self.gru = nn.GRU(features, hidden, batch_first=True)
        self.pi, self.mu, self.log_sigma = (nn.Linear(hidden, parts) for _ in range(3))

    def forward(self, window: torch.Tensor):
        _, last = self.gru(window)
        h = last[-1]
        return self.pi(h).softmax(-1), self.mu(h), self.log_sigma(h).clamp(-7, 7).exp()


def negative_log_likelihood(pi, mu, sigma, y):
    z = (y[:, None] - mu) / sigma
    density = torch.exp(-0.5 * z * z) / (sigma * math.sqrt(2 * math.pi))
    return -torch.log((pi * density).sum(dim=1)).mean()  # expect: ESP213


def fit(model: MixtureDensity, loader, epochs: int = 30) -> list[float]:
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    curve = []
    for _ in range(epochs):
        model.train()
        total = torch.zeros(())
        for window, y in loader:
            nll = negative_log_likelihood(*model(window), y)
            opt.zero_grad(set_to_none=True)
            nll.backward()
            opt.step()
            total += nll.detach()
        curve.append(float(total))
    return curve
