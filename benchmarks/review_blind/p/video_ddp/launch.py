"""Process-group plumbing."""
import functools
import os
from contextlib import contextmanager

import torch
import torch.distributed as dist


def rank():
    return dist.get_rank() if dist.is_initialized() else 0


def world_size():
    return dist.get_world_size() if dist.is_initialized() else 1


def rank_zero_only(fn):
    @functools.wraps(fn)
    def inner(*a, **k):
        if rank() == 0:
            return fn(*a, **k)
        return None
    return inner


@contextmanager
def process_group():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    try:
        yield torch.device("cuda", local)
    finally:
        dist.destroy_process_group()


def reduce_sums(*tensors):
    """Sum tensors over ranks; every rank has to call it."""
    flat = torch.stack([t.double() for t in tensors])
    if dist.is_initialized():
        dist.all_reduce(flat)
    return flat.unbind()


@rank_zero_only
def say(*a):
    print(*a, flush=True)


@rank_zero_only
def save(obj, path):
    tmp = f"{path}.tmp"
    torch.save(obj, tmp)
    os.replace(tmp, path)
