import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision.models import efficientnet_b0

import checkpoint
from fundus_data import FundusImages


def train_one_epoch(model, loader, opt, device):
    model.train()
    total = torch.zeros((), device=device)
    for img, grade in loader:
        img, grade = img.to(device, non_blocking=True), grade.to(device, non_blocking=True)
        loss = F.cross_entropy(model(img), grade)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.detach()
    total /= len(loader)
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    return total.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--root", required=True)
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--out", default="runs/fundus/last.pt")
    args = ap.parse_args()
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    torch.manual_seed(100 + dist.get_rank())
    ds = FundusImages(args.root, "train")
    sampler = DistributedSampler(ds, shuffle=True, drop_last=True)
    loader = DataLoader(ds, 32, sampler=sampler, num_workers=6, pin_memory=True, drop_last=True)
    net = efficientnet_b0(num_classes=5).to(device)
    model = DDP(net, device_ids=[local])
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, loader, opt, device)
        if dist.get_rank() == 0:
            checkpoint.write(args.out, model, opt, epoch, {"loss": loss})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
