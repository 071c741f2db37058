"""Backbone factory."""
import torch.nn as nn
from torchvision import models

REGISTRY = {
    "resnet34": (models.resnet34, models.ResNet34_Weights.IMAGENET1K_V1),
    "resnet50": (models.resnet50, models.ResNet50_Weights.IMAGENET1K_V2),
}


class HeadMLP(nn.Module):
    def __init__(self, d_in, n_out, p=0.3):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(d_in), nn.Dropout(p), nn.Linear(d_in, n_out))

    def forward(self, x):
        return self.net(x)


def create(name):
    ctor, weights = REGISTRY[name]
    return ctor(weights=weights)


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def adapt_head(net, n_classes):
    """Swap the ImageNet classifier for one sized to our label set."""
    net.fc = HeadMLP(net.fc.in_features, n_classes)
    return net
