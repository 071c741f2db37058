import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29617")
dist.init_process_group("gloo", rank=0, world_size=1)
backbone = nn.Linear(4, 4)
for p in backbone.parameters():
    p.requires_grad_(False)
model = DDP(backbone)
