import argparse

import torch
import yaml
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

from engine import Engine

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def get_transforms(train):
    if train:
        ops = [T.RandomResizedCrop(224, scale=(0.5, 1.0)), T.RandomHorizontalFlip(), T.ColorJitter(0.2, 0.2)]
    else:
        ops = [T.Resize(256), T.CenterCrop(224)]
    return T.Compose(ops + [T.ToTensor(), T.Normalize(MEAN, STD)])


def get_loader(root, split, batch):
    train = split == "train"
    ds = ImageFolder(f"{root}/{split}", get_transforms(train))
    dl = DataLoader(ds, batch, shuffle=train, num_workers=6, pin_memory=True, drop_last=train)
    return ds, dl


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default="plant.yaml")
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    with open(args.config) as fh:
        cfg = yaml.safe_load(fh)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_ds, train_dl = get_loader(cfg["root"], "train", cfg["batch"])
    _, val_dl = get_loader(cfg["root"], "val", cfg["batch"])

    engine = Engine(cfg, device)
    engine.setup(len(train_ds.classes))
    best = 0.0
    for epoch in range(cfg["epochs"]):
        loss = engine.train_epoch(train_dl)
        acc = engine.evaluate(val_dl)
        print(f"[{epoch}] loss {loss:.4f} val acc {acc:.4f}")
        if acc > best:
            best = acc
            torch.save({"net": engine.net.state_dict(), "classes": train_ds.classes}, cfg["out"])
    print("best", best)


if __name__ == "__main__":
    main()
