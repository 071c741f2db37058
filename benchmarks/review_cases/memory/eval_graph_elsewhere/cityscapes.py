import numpy as np
import torch
from PIL import Image
from pathlib import Path
from torch.utils.data import DataLoader, Dataset


class Cityscapes(Dataset):
    def __init__(self, root, split):
        self.images = sorted(Path(root, "leftImg8bit", split).rglob("*.png"))
        self.root, self.split = root, split

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        path = self.images[i]
        mask = Path(self.root, "gtFine", self.split, path.parent.name, path.name.replace("leftImg8bit", "gtFine_labelTrainIds"))
        image = np.array(Image.open(path).convert("RGB").resize((1024, 512)))
        label = np.array(Image.open(mask).resize((1024, 512), Image.NEAREST))
        return torch.from_numpy(image).permute(2, 0, 1).float() / 255, torch.from_numpy(label).long()


def loaders(root="/data/cityscapes"):
    return (
        DataLoader(Cityscapes(root, "train"), 8, shuffle=True, num_workers=8, pin_memory=True, drop_last=True),
        DataLoader(Cityscapes(root, "val"), 8, num_workers=8, pin_memory=True),
    )
