"""torchrun entry point of the image/caption pretraining."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from contrast import GlobalContrast
from towers import DualEncoder


def setup():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    return local_rank


def param_groups(model, weight_decay):
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": decay, "weight_decay": weight_decay},
            {"params": rest, "weight_decay": 0.0}]


def pretrain(dataset, vocab, epochs=30, batch_size=256, lr=5e-4, out="clip.pt"):
    local_rank = setup()
    device = torch.device("cuda", local_rank)
    sampler = DistributedSampler(dataset, shuffle=True, drop_last=True)
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler, num_workers=8,
                        pin_memory=True, drop_last=True, persistent_workers=True)
    model = DDP(DualEncoder(vocab).to(device), device_ids=[local_rank])
    objective = GlobalContrast()
    optimizer = torch.optim.AdamW(param_groups(model, 0.2), lr=lr, betas=(0.9, 0.98), eps=1e-6)
    total = epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=total,
                                                   pct_start=0.05, cycle_momentum=False)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()
        for step, (images, ids) in enumerate(loader):
            images = images.to(device, non_blocking=True)
            ids = ids.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                img, txt, scale = model(images, ids)
            loss, stats = objective(img.float(), txt.float(), scale.float())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if step % 100 == 0 and dist.get_rank() == 0:
                print(epoch, step, loss.item(), stats["i2t"].item())
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), out)
    dist.destroy_process_group()
