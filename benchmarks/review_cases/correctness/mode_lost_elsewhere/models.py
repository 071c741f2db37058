import torch.nn as nn


class DnCNN(nn.Module):
    def __init__(self, depth=17, ch=64):
        super().__init__()
        layers = [nn.Conv2d(1, ch, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(ch, ch, 3, padding=1, bias=False), nn.BatchNorm2d(ch), nn.ReLU(inplace=True)]
        self.net = nn.Sequential(*layers, nn.Conv2d(ch, 1, 3, padding=1))

    def forward(self, y):
        return y - self.net(y)
