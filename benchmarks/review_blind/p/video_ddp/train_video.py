"""torchrun --nproc_per_node=8 train_video.py --root /data/ssv2"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torchvision.models.video import r2plus1d_18

from launch import process_group, reduce_sums, save, say, world_size
from loaders import train_loader, val_loader


def train_epoch(ddp, loader, opt, sched, device):
    ddp.train()
    total = torch.zeros((), device=device)
    for clip, y in loader:
        clip, y = clip.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(ddp(clip), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        total += loss.detach()
    (total,) = reduce_sums(total)
    return (total / (len(loader) * world_size())).item()


@torch.no_grad()
def evaluate(net, loader, device):
    net.eval()
    hit, n = torch.zeros((), device=device), torch.zeros((), device=device)
    for clip, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = net(clip.to(device, non_blocking=True))
        hit += (out.argmax(1) == y.to(device)).sum()
        n += y.numel()
    hit, n = reduce_sums(hit, n)
    return (hit / n).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--root", required=True)
    ap.add_argument("--classes", type=int, default=174)
    ap.add_argument("--epochs", type=int, default=30)
    args = ap.parse_args()
    with process_group() as device:
        torch.manual_seed(0)
        net = nn.SyncBatchNorm.convert_sync_batchnorm(r2plus1d_18(num_classes=args.classes)).to(device)
        ddp = DDP(net, device_ids=[device.index])
        tl, vl = train_loader(args.root, 16), val_loader(args.root, 16)
        opt = torch.optim.AdamW(ddp.parameters(), 5e-4, weight_decay=0.05)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 5e-4, total_steps=args.epochs * len(tl))
        best = -1.0
        for epoch in range(args.epochs):
            loss = train_epoch(ddp, tl, opt, sched, device)
            acc = evaluate(net, vl, device)
            say(f"epoch {epoch} loss {loss:.4f} acc {acc:.4f}")
            if acc > best:
                best = acc
                save({"model": net.state_dict(), "epoch": epoch, "acc": acc}, "video_best.pt")


if __name__ == "__main__":
    main()
