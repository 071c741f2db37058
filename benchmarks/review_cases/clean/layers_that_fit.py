"""Networks whose widths look wrong at first sight and are right."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BiGRU(nn.Module):
    def __init__(self, d=40, h=64, classes=5):
        super().__init__()
        self.rnn = nn.GRU(d, h, bidirectional=True, batch_first=True)
        self.sum_head = nn.Linear(h, classes)
        self.cat_head = nn.Linear(2 * h, classes)

    def forward(self, x):
        out, hn = self.rnn(x)
        both = hn[0] + hn[1]
        return self.sum_head(both) + self.cat_head(out.mean(1))


class Adaptive(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 3)
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.fc = nn.Linear(256, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.c2(F.relu(self.c1(x)))))
        return self.fc(x.flatten(1))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        x = x.view(x.size(0), -1)
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


class DenseBlock(nn.Module):
    def __init__(self, cin, growth=12, layers=4):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(cin + i * growth, growth, 3, padding=1) for i in range(layers))

    def forward(self, x):
        for conv in self.convs:
            x = torch.cat([x, F.relu(conv(x))], 1)
        return x


class GLU(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.inp, self.out, self.lazy = nn.Linear(d, 4 * d), nn.Linear(2 * d, d), nn.LazyLinear(d)

    def forward(self, x):
        return self.lazy(self.out(F.glu(self.inp(x), dim=-1)))


class Pixel(nn.Module):
    def __init__(self, c=64, r=2):
        super().__init__()
        self.up = nn.Sequential(nn.Conv2d(c, c * r * r, 3, padding=1), nn.PixelShuffle(r), nn.Conv2d(c, 3, 3, padding=1))
        self.depthwise = nn.Conv2d(c, c, 3, padding=1, groups=c)

    def forward(self, x):
        return self.up(self.depthwise(x))


class Shared(nn.Module):
    """One projection for patches of two kinds, unused in one of them."""

    def __init__(self, wide=True):
        super().__init__()
        self.wide = wide
        self.proj = nn.Linear(96 if wide else 48, 32)
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        x = torch.cat([x, x.flip(-1)], -1) if self.wide else x
        return self.head(self.proj(x))


def shared_input():
    return Shared()(torch.randn(4, 48)), GLU()(torch.randn(2, 128)), LeNet()(torch.randn(2, 1, 28, 28))
