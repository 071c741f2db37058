"""Vessels in fundus photographs; widths that look wrong and are right."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Gate(nn.Module):
    def __init__(self, skip, gate, inner):
        super().__init__()
        self.s, self.g, self.psi = nn.Conv2d(skip, inner, 1), nn.Conv2d(gate, inner, 1), nn.Conv2d(inner, 1, 1)

    def forward(self, skip, gate):
        gate = F.interpolate(self.g(gate), size=skip.shape[2:], mode="bilinear", align_corners=False)
        return skip * torch.sigmoid(self.psi(F.relu(self.s(skip) + gate)))


class Conv(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, padding=1, groups=1), nn.GroupNorm(4, cout), nn.SiLU())


class VesselNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.unshuffle = nn.PixelUnshuffle(2)
        self.e1 = Conv(3 * 4, width)
        self.e2 = Conv(width, 2 * width)
        self.e3 = Conv(2 * width, 4 * width)
        self.gate2, self.gate1 = Gate(2 * width, 4 * width, width), Gate(width, 2 * width, 8)
        self.d2 = Conv(4 * width + 2 * width, 2 * width)
        self.d1 = Conv(2 * width + width, width)
        self.out = nn.Sequential(nn.Conv2d(width, 4, 1), nn.PixelShuffle(2))
        self.embed = nn.Bilinear(width, 4 * width, 10)
        self.quality = nn.Linear(10 + 2, 3)

    def forward(self, image):
        e1 = self.e1(self.unshuffle(image))
        e2 = self.e2(F.max_pool2d(e1, 2))
        e3 = self.e3(F.max_pool2d(e2, 2))
        d2 = self.d2(torch.cat([F.interpolate(e3, scale_factor=2), self.gate2(e2, e3)], 1))
        d1 = self.d1(torch.cat([F.interpolate(d2, scale_factor=2), self.gate1(e1, d2)], 1))
        both = self.embed(e1.mean((2, 3)), e3.mean((2, 3)))
        extent = torch.stack([image.mean((1, 2, 3)), image.amax((1, 2, 3))], dim=1)
        return self.out(d1), self.quality(torch.cat([both, extent], dim=1))


if __name__ == "__main__":
    vessels, quality = VesselNet()(torch.rand(2, 3, 64, 64))
    assert vessels.shape == (2, 1, 64, 64) and quality.shape == (2, 3)
