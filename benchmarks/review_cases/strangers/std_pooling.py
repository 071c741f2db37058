"""x-vectors with statistics pooling for language identification."""
import torch
import torch.nn as nn


class StatsPool(nn.Module):
    def forward(self, frames):
        mean = frames.mean(dim=2)
        std = frames.var(dim=2).sqrt()  # expect: ESP212
        return torch.cat([mean, std], dim=1)


class XVector(nn.Module):
    def __init__(self, mels=30, languages=12, width=512):
        super().__init__()
        self.frames = nn.Sequential(
            nn.Conv1d(mels, width, 5),
            nn.ReLU(),
            nn.Conv1d(width, width, 3, dilation=2),
            nn.ReLU(),
            nn.Conv1d(width, width, 3, dilation=3),
            nn.ReLU(),
        )
        self.pool = StatsPool()
        self.segment = nn.Sequential(nn.Linear(2 * width, 256), nn.ReLU(), nn.Linear(256, languages))

    def forward(self, mel):
        return self.segment(self.pool(self.frames(mel)))


def fit(model, loader, epochs, device="cuda"):
    model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(epochs):
        for mel, language in loader:
            loss = nn.functional.cross_entropy(model(mel.to(device)), language.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
