"""Convolutional teacher and student used by the detector."""
import torch.nn as nn


def block(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
                         nn.BatchNorm2d(cout), nn.SiLU())


class Backbone(nn.Module):
    def __init__(self, widths, depths, drop=0.0):
        super().__init__()
        stages, cin = [], 3
        for width, depth in zip(widths, depths):
            layers = [block(cin, width, 2)] + [block(width, width, 1) for _ in range(depth)]
            stages.append(nn.Sequential(*layers, nn.Dropout2d(drop)))
            cin = width
        self.stages = nn.ModuleList(stages)

    def forward(self, x):
        feats = []
        for stage in self.stages:
            x = stage(x)
            feats.append(x)
        return feats[-3:]


class DenseHead(nn.Module):
    def __init__(self, channels, n_classes, width=128):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, width, 1) for c in channels)
        self.tower = nn.Sequential(block(width, width, 1), block(width, width, 1))
        self.cls = nn.Conv2d(width, n_classes, 1)
        self.box = nn.Conv2d(width, 4, 1)

    def forward(self, feats):
        towers = [self.tower(lat(f)) for lat, f in zip(self.lateral, feats)]
        return [self.cls(t) for t in towers], [self.box(t).exp() for t in towers]


class Detector(nn.Module):
    def __init__(self, widths, depths, n_classes, drop=0.0):
        super().__init__()
        self.backbone = Backbone(widths, depths, drop)
        self.head = DenseHead(widths[-3:], n_classes)

    def forward(self, images):
        feats = self.backbone(images)
        cls, box = self.head(feats)
        return feats, cls, box


def make_teacher(n_classes):
    return Detector((64, 128, 256, 512, 512), (2, 4, 6, 6, 4), n_classes, drop=0.1)


def make_student(n_classes):
    return Detector((24, 48, 96, 160, 160), (1, 1, 2, 2, 1), n_classes)
