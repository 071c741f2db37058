"""Binary road segmentation with a compact U-Net and fp16 AMP."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from roads import RoadTiles


def conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, base=32, depth=4):
        super().__init__()
        ch = [base * 2 ** i for i in range(depth)]
        self.down = nn.ModuleList(conv(i, o) for i, o in zip([3] + ch[:-1], ch))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(i, o, 2, 2) for i, o in zip(ch[:0:-1], ch[-2::-1]))
        self.merge = nn.ModuleList(conv(2 * o, o) for o in ch[-2::-1])
        self.head = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x)
            if i < len(self.down) - 1:
                skips.append(x)
                x = F.max_pool2d(x, 2)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips)):
            x = merge(torch.cat([up(x), skip], dim=1))
        return self.head(x)


def dice_bce(logits, target, eps=1.0):
    bce = F.binary_cross_entropy_with_logits(logits, target)
    p = logits.float().sigmoid()
    inter = (p * target).sum(dim=(1, 2, 3))
    denom = p.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return bce + 1 - ((2 * inter + eps) / (denom + eps)).mean()


class Stepper:
    def __init__(self, model, opt, max_norm=1.0):
        self.model, self.opt, self.max_norm = model, opt, max_norm
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            logits = self.model(x)
            loss = dice_bce(logits, y)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach()


@torch.no_grad()
def iou(model, loader):
    model.eval()
    inter = union = 0
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True).bool()
        with torch.autocast("cuda", dtype=torch.float16):
            pred = model(x) > 0
        inter += (pred & y).sum()
        union += (pred | y).sum()
    return (inter / union.clamp(min=1)).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("root")
    ap.add_argument("--epochs", type=int, default=50)
    args = ap.parse_args()
    torch.manual_seed(0)
    tl = DataLoader(RoadTiles(args.root, "train"), 16, shuffle=True, num_workers=8, pin_memory=True, drop_last=True)
    vl = DataLoader(RoadTiles(args.root, "val"), 16, num_workers=4, pin_memory=True)
    model = UNet().cuda()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    step = Stepper(model, opt)
    for ep in range(args.epochs):
        model.train()
        total = torch.zeros((), device="cuda")
        for x, y in tl:
            total += step(x.cuda(non_blocking=True), y.cuda(non_blocking=True).float())
        sched.step()
        print(f"{ep} loss {total.item() / len(tl):.4f} iou {iou(model, vl):.4f}")


if __name__ == "__main__":
    main()
