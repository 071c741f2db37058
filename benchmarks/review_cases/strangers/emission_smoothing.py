"""Smoothed event probabilities for the earthquake picker."""
import torch
import torch.nn as nn


class Picker(nn.Module):
    def __init__(self, components=3, width=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(components, width, 9, padding=4), nn.ReLU(), nn.Conv1d(width, 3, 9, padding=4)
        )

    def forward(self, trace):
        return self.conv(trace)


def local_energy(trace, half=50):
    """Mean square of each sample's neighbourhood, (B, T)."""
    b, _, t = trace.shape
    square = trace.square().mean(1)
    energy = torch.zeros(b, t, device=trace.device)
    for i in range(b):
        for j in range(t):
            energy[i, j] = square[i, max(0, j - half) : j + half + 1].mean()  # expect: ESP409
    return energy


def train(net, loader, epochs=10, device="cuda"):
    net.to(device).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(epochs):
        for trace, phase in loader:
            trace, phase = trace.to(device), phase.to(device)
            weight = 1 + local_energy(trace)
            loss = (nn.functional.cross_entropy(net(trace), phase, reduction="none") * weight).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
