"""torchrun launch.py"""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from data import make_loaders
from score import evaluate


def log(message):
    if dist.get_rank() == 0:
        print(message, flush=True)


def resume(path, net, optimizer, schedule, device):
    if not os.path.exists(path):
        return 0, 0.0
    state = torch.load(path, map_location=device, weights_only=True)
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    return state["epoch"] + 1, state["best"]


def run(make_net, root, n_classes=12, epochs=60, batch_size=16, lr=1e-3, path="last.pt"):
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    train_loader, val_loader, sampler = make_loaders(root, batch_size, rank, world)
    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(make_net(n_classes)).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    start, best = resume(path, net, optimizer, schedule, device)
    model = DDP(net, device_ids=[local_rank])
    for epoch in range(start, epochs):
        sampler.set_epoch(epoch)
        model.train()
        total = torch.zeros((), device=device)
        for image, mask in train_loader:
            logits = model(image.to(device, non_blocking=True))
            loss = F.cross_entropy(logits, mask.to(device, non_blocking=True), ignore_index=255)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        schedule.step()
        report = evaluate(net, val_loader, n_classes, device)
        log(f"epoch {epoch} loss {total.item() / len(train_loader):.4f} {report}")
        best = max(best, report["miou"])
        if rank == 0:
            torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(), "epoch": epoch, "best": best}, path)
    dist.barrier()
    dist.destroy_process_group()
