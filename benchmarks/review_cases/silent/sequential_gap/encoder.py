import torch.nn as nn


class Encoder(nn.Module):
    """Turns mel spectrograms into 512 numbers for each speaker."""

    def __init__(self, n_mels=80):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(n_mels, 256, 5, padding=2), nn.BatchNorm1d(256), nn.ReLU(),
            nn.Conv1d(256, 512, 3, padding=1), nn.BatchNorm1d(512), nn.ReLU(),
        )
        self.proj = nn.Linear(512, 192)

    def forward(self, mels):
        return self.proj(self.net(mels).mean(dim=-1))
