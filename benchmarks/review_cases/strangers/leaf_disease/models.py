import torch.nn as nn


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.Hardswish())


class LeafNet(nn.Module):
    """Small enough for the phones of the field workers."""

    def __init__(self, diseases=38):
        super().__init__()
        self.features = nn.Sequential(conv(3, 16, 2), conv(16, 32, 2), conv(32, 64, 2), conv(64, 128, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(128, diseases),
            nn.Softmax(dim=1),  # expect: ESP201 @soft
        )

    def forward(self, x):
        return self.classifier(self.pool(self.features(x)))
