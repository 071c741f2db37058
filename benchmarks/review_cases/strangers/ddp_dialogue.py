"""Fine-tunes a dialogue model on several cards with accumulated gradients."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from dialogue import Turns, build, pad


def main(epochs=3, accumulate=16, per_device=2):
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)

    turns = Turns("train.jsonl")
    sampler = DistributedSampler(turns)  # expect: ESP204
    loader = DataLoader(turns, per_device, sampler=sampler, collate_fn=pad, num_workers=2, pin_memory=True)
    model = DDP(build().to(device), device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        for step, (ids, labels) in enumerate(loader):
            ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            logits = model(ids)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
            (loss / accumulate).backward()  # expect: ESP412
            if (step + 1) % accumulate == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                if local == 0 and (step + 1) % (50 * accumulate) == 0:
                    print(f"{epoch} {step + 1} {loss.item():.3f}")
        if local == 0:
            torch.save(model.module.state_dict(), f"dialogue-{epoch}.pt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
