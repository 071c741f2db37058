import argparse
import os

import torch
from torch.utils.data import DataLoader

import weights
from detector import Detector, focal_heatmap, size_l1
from traffic_signs import SignBoxes


def freeze_backbone(model, flag):
    for p in model.backbone.parameters():
        p.requires_grad_(not flag)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--root", required=True)
    ap.add_argument("--pretrained")
    ap.add_argument("--out", default="det_last.pt")
    ap.add_argument("--epochs", type=int, default=60)
    ap.add_argument("--warm", type=int, default=2, help="epochs with a frozen backbone")
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    ds = SignBoxes(args.root, "train")
    loader = DataLoader(ds, 32, shuffle=True, num_workers=8, pin_memory=True, drop_last=True)
    model = Detector(ds.n_classes)
    if args.pretrained:
        weights.load_backbone(model, args.pretrained)
    model.to(device)
    opt = torch.optim.AdamW([
        {"params": model.backbone.parameters(), "lr": 2e-4},
        {"params": model.head.parameters(), "lr": 1e-3},
    ])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    start = 0
    if os.path.exists(args.out):
        start = weights.resume(args.out, model, opt, sched)
    for epoch in range(start, args.epochs):
        model.train()
        freeze_backbone(model, epoch < args.warm)
        total = torch.zeros((), device=device)
        for img, heat, size, mask in loader:
            img, heat, size, mask = (t.to(device, non_blocking=True) for t in (img, heat, size, mask))
            ph, ps = model(img)
            loss = focal_heatmap(ph, heat) + 0.1 * size_l1(ps, size, mask)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
        sched.step()
        print(f"{epoch} loss {total.item() / len(loader):.4f}")
        weights.save(args.out, model, opt, sched, epoch)


if __name__ == "__main__":
    main()
