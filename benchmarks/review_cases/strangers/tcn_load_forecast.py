"""Day-ahead load of a substation: one week of hours in, 24 hours out."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LoadTCN(nn.Module):
    def __init__(self, channels=6, horizon=24):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, 32, kernel_size=5, stride=2)
        self.conv2 = nn.Conv1d(32, 64, kernel_size=5, stride=2)
        self.norm = nn.BatchNorm1d(64)
        self.drop = nn.Dropout(0.1)
        self.hidden = nn.Linear(64 * 40, 128)  # expect: ESP205 @width
        self.out = nn.Linear(128, horizon)

    def forward(self, week):
        h = F.relu(self.conv1(week))
        h = F.relu(self.norm(self.conv2(h)))
        h = self.drop(torch.flatten(h, 1))
        return self.out(F.relu(self.hidden(h)))  # expect: ESP205 @width


def pinball(pred, load, q=0.5):
    gap = load - pred
    return torch.maximum(q * gap, (q - 1) * gap).mean()


def main(loader, epochs=30):
    model = LoadTCN()
    print(model(torch.randn(2, 6, 168)).shape)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        model.train()
        for week, load in loader:
            optimizer.zero_grad()
            pinball(model(week), load).backward()
            optimizer.step()
