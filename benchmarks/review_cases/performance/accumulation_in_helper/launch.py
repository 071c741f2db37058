import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision.models import swin_t

from steps import Accumulator


def main(dataset, epochs=100):
    dist.init_process_group(backend="nccl")
    rank = int(os.environ["LOCAL_RANK"])
    model = DistributedDataParallel(swin_t(num_classes=1000).cuda(rank), device_ids=[rank])
    opt = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, 128, sampler=sampler, num_workers=8, pin_memory=True, drop_last=True)
    step = Accumulator(model, opt, every=8)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            step(x.cuda(rank, non_blocking=True), y.cuda(rank, non_blocking=True))
