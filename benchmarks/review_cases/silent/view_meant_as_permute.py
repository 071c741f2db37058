"""Human activity recognition: Conv1d over windows that arrive as (batch, time, channels)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class HARNet(nn.Module):
    def __init__(self, channels=9, classes=6):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, 64, 5, padding=2)
        self.conv2 = nn.Conv1d(64, 128, 5, padding=2)
        self.head = nn.Linear(128, classes)

    def forward(self, x):
        batch, steps, channels = x.shape
        x = x.view(batch, channels, steps)  # expect: ESP209
        x = F.max_pool1d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.head(x.mean(dim=-1))


def load(split):
    x = np.load(f"har_{split}_x.npy").astype(np.float32)
    y = np.load(f"har_{split}_y.npy").astype(np.int64)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


def main():
    model = HARNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(30):
        model.train()
        for x, y in DataLoader(load("train"), 64, shuffle=True):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
