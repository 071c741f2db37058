"""PointNet classifier with random rotation / jitter augmentation."""
import argparse
import glob
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class PointClouds(Dataset):
    def __init__(self, root, split, n_points=1024, augment=False, seed=0):
        self.classes = sorted(os.listdir(root))
        self.items = [(p, c) for c, name in enumerate(self.classes)
                      for p in sorted(glob.glob(os.path.join(root, name, split, "*.npy")))]
        self.n_points, self.augment = n_points, augment
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.items)

    def _augment(self, pts):
        a = self.rng.uniform(0, 2 * np.pi)
        rot = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
        scale = self.rng.uniform(0.8, 1.25)
        jitter = np.clip(0.01 * self.rng.standard_normal(pts.shape), -0.05, 0.05)
        return pts @ rot.T * scale + jitter

    def __getitem__(self, i):
        path, label = self.items[i]
        pts = np.load(path)
        if self.augment:
            sel = self.rng.choice(len(pts), self.n_points, replace=len(pts) < self.n_points)
        else:
            sel = np.linspace(0, len(pts) - 1, self.n_points).astype(np.int64)
        pts = pts[sel]
        pts = pts - pts.mean(axis=0, keepdims=True)
        pts = pts / np.linalg.norm(pts, axis=1).max()
        if self.augment:
            pts = self._augment(pts)
        return torch.from_numpy(pts.astype(np.float32)), label


class PointNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        dims = [3, 64, 128, 1024]
        self.local = nn.Sequential(*[
            nn.Sequential(nn.Conv1d(i, o, 1, bias=False), nn.BatchNorm1d(o), nn.ReLU())
            for i, o in zip(dims[:-1], dims[1:])])
        self.head = nn.Sequential(nn.Linear(1024, 256, bias=False), nn.BatchNorm1d(256), nn.ReLU(),
                                  nn.Dropout(0.4), nn.Linear(256, n_classes))

    def forward(self, pts):
        return self.head(self.local(pts.transpose(1, 2)).amax(dim=-1))


def make_loaders(root, batch, workers, seed):
    train = PointClouds(root, "train", augment=True, seed=seed)
    test = PointClouds(root, "test")
    tl = DataLoader(train, batch, shuffle=True, num_workers=workers, drop_last=True)
    return tl, DataLoader(test, batch, num_workers=workers), len(train.classes)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("root")
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--workers", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=150)
    ap.add_argument("--seed", type=int, default=13)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    dev = torch.device("cuda")
    tl, vl, n_classes = make_loaders(args.root, args.batch, args.workers, args.seed)
    net = PointNet(n_classes).to(dev)
    opt = torch.optim.Adam(net.parameters(), 1e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.StepLR(opt, 20, 0.7)
    for epoch in range(args.epochs):
        net.train()
        for pts, y in tl:
            loss = F.cross_entropy(net(pts.to(dev)), y.to(dev))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        sched.step()
        net.eval()
        hit = n = 0
        with torch.inference_mode():
            for pts, y in vl:
                hit += (net(pts.to(dev)).argmax(-1) == y.to(dev)).sum().item()
                n += y.numel()
        print(f"{epoch} acc {hit / n:.4f}")


if __name__ == "__main__":
    main()
