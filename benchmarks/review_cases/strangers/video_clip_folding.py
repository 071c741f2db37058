"""Action recognition: a 2D backbone per frame, then a recurrent head over time."""
import torch
import torch.nn as nn


class FrameEncoder(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, dim, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )

    def forward(self, frames):
        return self.net(frames).flatten(1)


class ActionNet(nn.Module):
    def __init__(self, actions=101, dim=128, hidden=256):
        super().__init__()
        self.encoder = FrameEncoder(dim)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, actions)

    def forward(self, clip):
        batch, channels, time, height, width = clip.shape
        frames = clip.reshape(batch * time, channels, height, width)  # expect: ESP209
        h = self.encoder(frames).view(batch, time, -1)
        states, _ = self.rnn(h)
        return self.out(states[:, -1])


def train_epoch(net, loader, optimizer, criterion, device):
    net.train()
    for clip, action in loader:
        loss = criterion(net(clip.to(device)), action.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
