import torch
import torch.nn as nn


class DefectNet(nn.Module):
    """Finds scratches on metal sheets."""

    def __init__(self, kinds=6):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 3, 2, 1), nn.BatchNorm2d(24), nn.ReLU6(), nn.Conv2d(24, 48, 3, 2, 1), nn.BatchNorm2d(48), nn.ReLU6()
        )
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(48, kinds)

    def forward(self, sheet):
        return self.out(self.drop(self.features(sheet).mean((2, 3))))


def restore(path, kinds=6):
    net = DefectNet(kinds)
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return net
