"""Action recognition: a 3D network takes what it can from ImageNet weights."""
import torch
import torch.nn as nn
from torch.hub import load_state_dict_from_url

URL = "https://download.pytorch.org/models/resnet50-0676ba61.pth"


class Inflated(nn.Module):
    def __init__(self, classes=400):
        super().__init__()
        self.conv1 = nn.Conv3d(3, 64, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False)
        self.bn1 = nn.BatchNorm3d(64)
        self.layer = nn.Sequential(nn.Conv3d(64, 256, 3, 2, 1), nn.BatchNorm3d(256), nn.ReLU(), nn.Conv3d(256, 512, 3, 2, 1), nn.ReLU())
        self.fc = nn.Linear(512, classes)

    def forward(self, clip):
        x = torch.relu(self.bn1(self.conv1(clip)))
        return self.fc(self.layer(x).mean((2, 3, 4)))

    def init_from_imagenet(self):
        weights = load_state_dict_from_url(URL, weights_only=True)
        inflated = {k: v.unsqueeze(2) if v.dim() == 4 else v for k, v in weights.items() if not k.startswith("fc.")}
        self.load_state_dict(inflated, strict=False)  # expect: ESP203
        return self


def build(device="cuda"):
    return Inflated().init_from_imagenet().to(device).train()
