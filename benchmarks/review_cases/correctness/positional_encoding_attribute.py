"""Transformer classifier for sensor windows."""
import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div)
        pe[0, :, 1::2] = torch.cos(position * div)
        self.pe = pe  # expect: ESP104 @pe

    def forward(self, x):
        x = x + self.pe[:, : x.size(1)]  # expect: ESP104 @pe
        return self.dropout(x)


class SensorTransformer(nn.Module):
    def __init__(self, channels=6, d_model=64, classes=12):
        super().__init__()
        self.inp = nn.Linear(channels, d_model)
        self.pos = PositionalEncoding(d_model)
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(d_model, 4, batch_first=True), 3)
        self.cls = nn.Linear(d_model, classes)

    def forward(self, x):
        return self.cls(self.enc(self.pos(self.inp(x))).mean(dim=1))


def train(loader, epochs=10):
    device = torch.device("cuda")
    net = SensorTransformer().to(device)
    opt = torch.optim.Adam(net.parameters())
    ce = nn.CrossEntropyLoss()
    net.train()
    for _ in range(epochs):
        for window, label in loader:
            opt.zero_grad()
            loss = ce(net(window.to(device)), label.to(device))
            loss.backward()
            opt.step()
    return net
