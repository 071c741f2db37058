"""Data pipeline for plant leaf disease photographs."""
from pathlib import Path

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler, random_split
from torchvision import transforms as T

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def train_transform(size):
    return T.Compose([
        T.RandomResizedCrop(size, scale=(0.4, 1.0)),
        T.RandomHorizontalFlip(),
        T.RandomRotation(20),
        T.ColorJitter(0.3, 0.3, 0.2),
        T.ToTensor(),
        T.Normalize(MEAN, STD),
    ])


def eval_transform(size):
    return T.Compose([
        T.Resize(int(size * 1.14)),
        T.CenterCrop(size),
        T.ToTensor(),
        T.Normalize(MEAN, STD),
    ])


class LeafDataset(Dataset):
    def __init__(self, root, transform=None):
        self.root = Path(root)
        self.classes = sorted(p.name for p in self.root.iterdir() if p.is_dir())
        index = {name: i for i, name in enumerate(self.classes)}
        self.samples = [(p, index[p.parent.name]) for p in sorted(self.root.glob("*/*.jpg"))]
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, target = self.samples[i]
        image = Image.open(path).convert("RGB")
        if self.transform is not None:
            image = self.transform(image)
        return image, target


def balanced_sampler(subset):
    targets = torch.tensor([subset.dataset.samples[i][1] for i in subset.indices])
    counts = torch.bincount(targets, minlength=len(subset.dataset.classes)).clamp(min=1)
    weights = (1.0 / counts.double())[targets]
    return WeightedRandomSampler(weights, num_samples=len(subset), replacement=True)


class LeafDataModule:
    def __init__(self, root, size=224, batch_size=64, val_fraction=0.2, workers=8, seed=17):
        self.root, self.size, self.batch_size = root, size, batch_size
        self.val_fraction, self.workers, self.seed = val_fraction, workers, seed

    def setup(self):
        full = LeafDataset(self.root, transform=train_transform(self.size))
        n_val = int(len(full) * self.val_fraction)
        generator = torch.Generator().manual_seed(self.seed)
        self.train_set, self.val_set = random_split(
            full, [len(full) - n_val, n_val], generator=generator)
        self.val_set.dataset.transform = eval_transform(self.size)
        self.classes = full.classes

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.batch_size,
                          sampler=balanced_sampler(self.train_set),
                          num_workers=self.workers, pin_memory=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=self.batch_size, shuffle=False,
                          num_workers=self.workers, pin_memory=True)
