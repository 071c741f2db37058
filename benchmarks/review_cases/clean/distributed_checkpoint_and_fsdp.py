import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n, self.up, self.down = nn.RMSNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.n(x))))


class Stack(nn.Module):
    def __init__(self, d=1024, n=16):
        super().__init__()
        self.layers = nn.ModuleList(Layer(d) for _ in range(n))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def train(batches, path, accum=4):
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = Stack().cuda()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    opt = torch.optim.AdamW(model.parameters(), 1e-4)
    if os.path.exists(path):
        m, o = get_state_dict(model, opt)
        dcp.load({"model": m, "optim": o}, checkpoint_id=path)
        set_state_dict(model, opt, model_state_dict=m, optim_state_dict=o)
    model.train()
    for i, (x, y) in enumerate(batches):
        last = (i + 1) % accum == 0
        model.set_requires_gradient_sync(last)
        loss = nn.functional.mse_loss(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)) / accum
        loss.backward()
        if last:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
    m, o = get_state_dict(model, opt)
    dcp.save({"model": m, "optim": o}, checkpoint_id=path)
