from torch import nn
import torch
from torch.utils.data import Dataset

NEAR_INFRARED, RED = 60, 32


class FieldPatches(Dataset):
    """Patches of 9 x 9 pixels and 102 bands, from the scene and a map of crops."""

    def __init__(self, scene, crops, side=9):
        self.scene = torch.nn.functional.pad(scene, [side // 2] * 4)
        self.side = side
        self.where = crops.nonzero()
        self.crops = crops

    def __len__(self):
        return len(self.where)

    def __getitem__(self, i):
        r, c = self.where[i].tolist()
        patch = self.scene[:, r : r + self.side, c : c + self.side]
        nir, red = patch[NEAR_INFRARED], patch[RED]
        ndvi = (nir - red) / (nir + red)  # expect: ESP211
        return torch.cat([patch, ndvi.unsqueeze(0)]), self.crops[r, c] - 1


class HybridNet(nn.Module):
    def __init__(self, n_crops=9, bands=103):
        super().__init__()
        self.spectral = nn.Sequential(
            nn.Conv3d(1, 8, kernel_size=(7, 3, 3), stride=(2, 1, 1)),
            nn.ReLU(),
            nn.Conv3d(8, 16, kernel_size=(5, 3, 3), stride=(2, 1, 1)),
            nn.ReLU(),
        )
        # depth: (103 - 7) // 2 + 1 = 49, then (49 - 5) // 2 + 1 = 23
        self.spatial = nn.Conv2d(16 * 22, 64, kernel_size=3)  # expect: ESP205
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(64 * 3 * 3, 128), nn.ReLU(), nn.Linear(128, n_crops))

    def forward(self, x):
        x = self.spectral(x.unsqueeze(1))
        x = x.flatten(1, 2)
        return self.fc(torch.relu(self.spatial(x)))


def probe():
    net = HybridNet()
    return net(torch.randn(2, 103, 9, 9))
