"""Classify tones with one-dimensional convolutions over time."""
import torch
from torch import nn
from torch.utils.data import DataLoader

from audio import SpectralFrames
from data import Tones


class ToneNet(nn.Module):
    """Convolutions over time with the bands as channels."""

    def __init__(self, bands, classes):
        super().__init__()
        self.stem = nn.Conv1d(bands, 32, kernel_size=3, padding=1)
        self.body = nn.Conv1d(32, 32, kernel_size=3, padding=1, dilation=1)
        self.head = nn.Linear(32, classes)

    def forward(self, spectrum):
        hidden = torch.relu(self.stem(spectrum))
        hidden = torch.relu(self.body(hidden))
        return self.head(hidden.mean(dim=-1))


def main():
    torch.manual_seed(0)
    transform = SpectralFrames(window=64, hop=32)
    loader = DataLoader(Tones(48, 1024, 4, transform), batch_size=8, shuffle=True)
    model = ToneNet(transform.bands, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        for spectrum, label in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(spectrum), label)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
