"""Gated residual block for audio super resolution."""
import torch
from torch import nn
import torch.nn.functional as F


class GatedResidual(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.filter = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
        self.gate = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
        self.out = nn.Conv1d(channels, channels, 1)
        self.temperature = 1.5

    def forward(self, x, mask):
        f = torch.tanh(self.filter(x))
        g = torch.sigmoid(self.gate(x))
        g *= mask  # expect: ESP114
        y = f * g
        return x + self.out(y)


class Upsampler(nn.Module):
    def __init__(self, channels=64, layers=6):
        super().__init__()
        self.inp = nn.Conv1d(1, channels, 7, padding=3)
        self.blocks = nn.ModuleList([GatedResidual(channels, 2 ** i) for i in range(layers)])
        self.head = nn.Conv1d(channels, 1, 1)

    def forward(self, wave, mask):
        h = F.relu(self.inp(wave))
        for block in self.blocks:
            h = block(h, mask)
        return self.head(h)


def train(model, loader, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model.train()
    for low, high, mask in loader:
        low, high, mask = low.to(device), high.to(device), mask.to(device)
        optimizer.zero_grad(set_to_none=True)
        loss = F.l1_loss(model(low, mask), high)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
