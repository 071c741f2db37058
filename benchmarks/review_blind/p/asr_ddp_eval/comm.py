"""Small helpers over torch.distributed."""
import os

import torch
import torch.distributed as dist


def init():
    if "RANK" not in os.environ:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dist.init_process_group("nccl")
    dev = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(dev)
    return dev


def is_dist():
    return dist.is_available() and dist.is_initialized()


def rank():
    return dist.get_rank() if is_dist() else 0


def world():
    return dist.get_world_size() if is_dist() else 1


def is_main():
    return rank() == 0


def sum_across(values, device):
    t = torch.as_tensor(values, dtype=torch.float64, device=device)
    if is_dist():
        dist.all_reduce(t)
    return t.tolist()


def barrier():
    if is_dist():
        dist.barrier()


def shutdown():
    barrier()
    if is_dist():
        dist.destroy_process_group()
