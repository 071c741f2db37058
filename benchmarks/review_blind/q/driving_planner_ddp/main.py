"""torchrun main.py: imitation training of the planner."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from closed_loop import evaluate_closed_loop
from planner import Planner, winner_loss


def build_loader(dataset, batch_size):
    sampler = DistributedSampler(dataset, shuffle=True, seed=7)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler,
                      num_workers=8, pin_memory=True, drop_last=True)


def train_epoch(model, loader, optimizer, device):
    model.train()
    total = torch.zeros((), device=device)
    for history, valid, target in loader:
        traj, score = model(history.to(device), valid.to(device))
        loss = winner_loss(traj, score, target.to(device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += loss.detach()
    total /= len(loader)
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def main(dataset, scenarios, epochs=100, batch_size=128, eval_every=5, out="runs"):
    dist.init_process_group("nccl")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    os.makedirs(out, exist_ok=True)
    model = DDP(Planner().to(device), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    loader = build_loader(dataset, batch_size)
    best = float("inf")
    for epoch in range(epochs):
        loss = train_epoch(model, loader, optimizer, device)
        schedule.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss:.4f}")
            torch.save(model.module.state_dict(), os.path.join(out, "latest.pth"))
            if (epoch + 1) % eval_every == 0:
                report = evaluate_closed_loop(model.module, scenarios, device)
                print(report)
                if report["collision"] < best:
                    best = report["collision"]
                    torch.save(model.module.state_dict(), os.path.join(out, "best.pth"))
    dist.destroy_process_group()
