from torch import nn


class Backbone(nn.Module):
    def __init__(self, widths=(8, 16), pool=2):
        super().__init__()
        stages, c = [], 3
        for w in widths:
            stages += [nn.Conv2d(c, w, 3, stride=2, padding=1), nn.BatchNorm2d(w), nn.ReLU()]
            c = w
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(pool)
        self.width = c

    def forward(self, x):
        return self.pool(self.stages(x)).flatten(1)
