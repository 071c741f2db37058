import argparse
import logging

import torch
from torch.utils.data import DataLoader
from torchvision.models import efficientnet_b0

import checkpoint
from fundus_data import FundusImages


def quadratic_kappa(conf):
    """Cohen's kappa with quadratic weights from a (C, C) count matrix."""
    c = conf.size(0)
    idx = torch.arange(c, dtype=torch.float64)
    w = (idx[:, None] - idx[None, :]) ** 2 / (c - 1) ** 2
    conf = conf.double()
    expected = conf.sum(1, keepdim=True) * conf.sum(0, keepdim=True) / conf.sum()
    return (1 - (w * conf).sum() / (w * expected).sum()).item()


@torch.inference_mode()
def confusion(model, loader, device, classes=5):
    model.eval()
    conf = torch.zeros(classes, classes, dtype=torch.long)
    for img, grade in loader:
        pred = model(img.to(device)).argmax(dim=1).cpu()
        conf += torch.bincount(grade * classes + pred, minlength=classes ** 2).view(classes, classes)
    return conf


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--root", required=True)
    ap.add_argument("--ckpt", required=True, help="path or URL")
    ap.add_argument("--split", default="test")
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = efficientnet_b0(num_classes=5)
    ckpt = checkpoint.restore_model(model, args.ckpt)
    model.to(device)
    loader = DataLoader(FundusImages(args.root, args.split), 64, num_workers=4)
    conf = confusion(model, loader, device)
    print(f"epoch {ckpt['epoch']} kappa {quadratic_kappa(conf):.4f}")
    print(conf)


if __name__ == "__main__":
    main()
