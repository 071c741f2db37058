"""Tumour segmentation from four MR contrasts."""
import torch
import torch.nn as nn


def double(cin, cout):
    return nn.Sequential(
        nn.Conv3d(cin, cout, 3, padding=1),
        nn.InstanceNorm3d(cout),
        nn.LeakyReLU(0.01),
        nn.Conv3d(cout, cout, 3, padding=1),
        nn.InstanceNorm3d(cout),
        nn.LeakyReLU(0.01),
    )


class UNet3d(nn.Module):
    def __init__(self, contrasts=4, regions=3):
        super().__init__()
        self.enc1 = double(contrasts, 16)
        self.enc2 = double(16, 32)
        self.enc3 = double(32, 64)
        self.down = nn.MaxPool3d(2)
        self.up2 = nn.ConvTranspose3d(64, 32, 2, stride=2)
        self.dec2 = double(64, 32)
        self.up1 = nn.ConvTranspose3d(32, 16, 2, stride=2)
        self.dec1 = double(16, 16)
        self.out = nn.Conv3d(16, regions, 1)

    def forward(self, volume):
        e1 = self.enc1(volume)
        e2 = self.enc2(self.down(e1))
        e3 = self.enc3(self.down(e2))
        d2 = self.dec2(torch.cat([self.up2(e3), e2], dim=1))
        d1 = self.dec1(torch.cat([self.up1(d2), e1], dim=1))  # expect: ESP205
        return self.out(d1)


@torch.no_grad()
def sliding_window(net, volume, size=128, stride=64, regions=3):
    out = volume.new_zeros(volume.shape[0], regions, *volume.shape[2:])
    hits = torch.zeros_like(out)
    depth, height, width = volume.shape[2:]
    for z in range(0, depth - size + 1, stride):
        for y in range(0, height - size + 1, stride):
            for x in range(0, width - size + 1, stride):
                at = (..., slice(z, z + size), slice(y, y + size), slice(x, x + size))
                out[at] += net(volume[at])  # allow: ESP408
                hits[at] += 1
    return out / hits.clamp(min=1)
