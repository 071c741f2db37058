"""Point cloud dataset with NumPy augmentation in the loader processes."""
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def rotate_z(points, angle):
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s], [s, c]], dtype=points.dtype)
    points[:, :2] = points[:, :2] @ turn.T
    return points


class RandomWorld:
    """Global flip, rotation, scaling and jitter of a sweep."""

    def __init__(self, rotation=np.pi / 4, scale=(0.95, 1.05), jitter=0.01):
        self.rotation, self.scale, self.jitter = rotation, scale, jitter

    def __call__(self, points, boxes):
        if np.random.rand() < 0.5:
            points[:, 1] *= -1
            boxes[:, 1] *= -1
            boxes[:, 6] *= -1
        angle = np.random.uniform(-self.rotation, self.rotation)
        points, boxes = rotate_z(points, angle), rotate_z(boxes, angle)
        boxes[:, 6] += angle
        factor = np.random.uniform(*self.scale)
        points[:, :3] *= factor
        boxes[:, :6] *= factor
        points[:, :3] += np.random.normal(0, self.jitter, points[:, :3].shape)
        return points, boxes


class SweepDataset(Dataset):
    def __init__(self, root, split, max_points=60000, augment=None):
        self.files = sorted(Path(root, split).glob("*.npz"))
        self.max_points, self.augment = max_points, augment

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with np.load(self.files[index]) as item:
            points = item["points"].astype(np.float32)
            boxes = item["boxes"].astype(np.float32)
            labels = item["labels"].astype(np.int64)
        if self.augment is not None:
            points, boxes = self.augment(points, boxes)
        if len(points) > self.max_points:
            points = points[np.random.choice(len(points), self.max_points, replace=False)]
        return torch.from_numpy(points), torch.from_numpy(boxes), torch.from_numpy(labels)


def collate(items):
    """Concatenate the sweeps; column 0 is the index of the sample."""
    points, boxes, labels = zip(*items)
    tag = lambda rows: torch.cat([
        torch.cat([torch.full((len(r), 1), float(i)), r], dim=1) for i, r in enumerate(rows)])
    return {"points": tag(points), "boxes": tag(boxes), "labels": torch.cat(labels),
            "batch_size": len(items)}


def build(root, batch_size=4, workers=8):
    train = SweepDataset(root, "train", augment=RandomWorld())
    val = SweepDataset(root, "val", max_points=10 ** 9)
    train_loader = DataLoader(train, batch_size=batch_size, shuffle=True, num_workers=workers,
                              collate_fn=collate, pin_memory=True, drop_last=True,
                              persistent_workers=True)
    val_loader = DataLoader(val, batch_size=batch_size, shuffle=False, num_workers=workers,
                            collate_fn=collate, pin_memory=True)
    return train_loader, val_loader
