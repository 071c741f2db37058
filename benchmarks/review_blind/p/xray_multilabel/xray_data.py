"""Chest X-ray findings: 14 binary labels per image."""
from pathlib import Path

import pandas as pd
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

FINDINGS = [
    "Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumonia",
    "Pneumothorax", "Consolidation", "Edema", "Emphysema", "Fibrosis", "Thickening", "Hernia",
]


def transform(train, size=320):
    ops = [T.Grayscale(1)]
    if train:
        ops += [T.RandomResizedCrop(size, (0.8, 1.0)), T.RandomAffine(7)]
    else:
        ops += [T.Resize(size), T.CenterCrop(size)]
    return T.Compose(ops + [T.ToTensor(), T.Normalize([0.5], [0.25])])


class XRays(Dataset):
    def __init__(self, root, split):
        self.root = Path(root)
        df = pd.read_csv(self.root / f"{split}.csv")
        self.files = df["image"].tolist()
        self.labels = torch.as_tensor(df[FINDINGS].values.astype("int64"))
        self.tf = transform(split == "train")

    def pos_weight(self):
        pos = self.labels.sum(dim=0).clamp(min=1).float()
        return ((len(self) - pos) / pos).clamp(max=20)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        img = Image.open(self.root / "images" / self.files[i])
        return self.tf(img), self.labels[i]


def loader(ds, batch, train):
    return DataLoader(ds, batch, shuffle=train, num_workers=8, pin_memory=True, drop_last=train)
