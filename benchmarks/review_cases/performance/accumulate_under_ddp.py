"""Multi-GPU pre-training with gradient accumulation."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from transformers import GPT2Config, GPT2LMHeadModel


def train(dataset, epochs=1, accum=16, batch_size=4):
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = GPT2LMHeadModel(GPT2Config()).cuda(local)
    model = DDP(model, device_ids=[local], gradient_as_bucket_view=True)
    sampler = DistributedSampler(dataset, seed=1)
    loader = DataLoader(dataset, batch_size, sampler=sampler, num_workers=4, pin_memory=True, drop_last=True)
    opt = torch.optim.AdamW(model.parameters(), 6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    model.train()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        opt.zero_grad(set_to_none=True)
        for i, ids in enumerate(loader):
            ids = ids.cuda(local, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=ids, labels=ids).loss / accum
            loss.backward()  # expect: ESP412
            if (i + 1) % accum == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad(set_to_none=True)
                if local == 0 and i % (accum * 50) == accum - 1:
                    print(i, loss.item() * accum)
    dist.destroy_process_group()
