"""torchrun --nproc_per_node=8 ddp_imagenet.py --data /imagenet"""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms


def setup():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    return local, dist.get_rank(), dist.get_world_size()


def build_loader(root, split, batch, workers=8):
    norm = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    if split == "train":
        tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                                 transforms.ToTensor(), norm])
    else:
        tf = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224),
                                 transforms.ToTensor(), norm])
    ds = datasets.ImageFolder(os.path.join(root, split), tf)
    sampler = DistributedSampler(ds, shuffle=split == "train", drop_last=split == "train")
    return DataLoader(ds, batch, sampler=sampler, num_workers=workers, pin_memory=True,
                      drop_last=split == "train", persistent_workers=True)


def train_epoch(model, loader, crit, opt, device):
    model.train()
    total = torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = crit(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.detach()
    total /= len(loader)
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    return total.item()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    stat = torch.zeros(2, device=device, dtype=torch.long)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        pred = model.module(x).argmax(dim=1)
        stat[0] += (pred == y).sum()
        stat[1] += y.numel()
    dist.all_reduce(stat)
    return (stat[0] / stat[1]).item()


def save_checkpoint(path, model, opt, sched, epoch, acc):
    torch.save({"model": model.module.state_dict(), "opt": opt.state_dict(),
                "sched": sched.state_dict(), "epoch": epoch, "acc": acc}, path)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True)
    ap.add_argument("--epochs", type=int, default=90)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--out", default="checkpoints")
    args = ap.parse_args()
    local, rank, world = setup()
    device = torch.device("cuda", local)
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(1234 + rank)
    train_dl = build_loader(args.data, "train", args.batch)
    val_dl = build_loader(args.data, "val", args.batch)
    model = DDP(models.resnet50().to(device), device_ids=[local])
    crit = nn.CrossEntropyLoss(label_smoothing=0.1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1 * args.batch * world / 256,
                          momentum=0.9, weight_decay=1e-4, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    best = 0.0
    for epoch in range(args.epochs):
        loss = train_epoch(model, train_dl, crit, opt, device)
        acc = evaluate(model, val_dl, device)
        sched.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss:.4f} acc {acc:.4f}")
        if acc > best:
            best = acc
            save_checkpoint(os.path.join(args.out, "best.pt"), model, opt, sched, epoch, acc)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
