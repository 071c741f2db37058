"""Gesture recogniser: MobileNet-like 1-D trunk over hand landmarks."""
import torch
import torch.nn as nn


class DSBlock(nn.Module):
    def __init__(self, c, k=5, p=0.2):
        super().__init__()
        self.dw = nn.Conv1d(c, c, k, padding=k // 2, groups=c, bias=False)
        self.bn1 = nn.BatchNorm1d(c)
        self.pw = nn.Conv1d(c, c, 1, bias=False)
        self.bn2 = nn.BatchNorm1d(c)
        self.act = nn.Hardswish()
        self.drop = nn.Dropout(p)

    def forward(self, x):
        h = self.act(self.bn1(self.dw(x)))
        return x + self.drop(self.bn2(self.pw(h)))


class LeakySmoother(nn.Module):
    """First-order low-pass filter over time with a learned per-channel rate."""

    def __init__(self, c):
        super().__init__()
        self.logit = nn.Parameter(torch.zeros(c))

    def forward(self, x):
        a = torch.sigmoid(self.logit)
        state = x[:, :, 0]
        out = [state]
        for t in range(1, x.size(2)):
            state = a * state + (1 - a) * x[:, :, t]
            out.append(state)
        return torch.stack(out, dim=2)


class GestureNet(nn.Module):
    def __init__(self, n_landmarks=21, width=96, depth=4, n_classes=18):
        super().__init__()
        self.inp = nn.Sequential(
            nn.Conv1d(3 * n_landmarks, width, 1, bias=False), nn.BatchNorm1d(width), nn.Hardswish())
        self.blocks = nn.Sequential(*[DSBlock(width) for _ in range(depth)])
        self.smooth = LeakySmoother(width)
        self.cls = nn.Linear(width, n_classes)

    def forward(self, pts):
        """pts: (B, T, landmarks, 3) -> (B, T, classes)"""
        b, t = pts.shape[:2]
        x = pts.reshape(b, t, -1).transpose(1, 2)
        h = self.smooth(self.blocks(self.inp(x)))
        return self.cls(h.transpose(1, 2))
