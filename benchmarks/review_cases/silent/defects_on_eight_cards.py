"""Counts missed weld defects with one process per GPU."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def missed(net, images, device):
    sampler = DistributedSampler(images, shuffle=False)
    loader = DataLoader(images, batch_size=32, sampler=sampler, num_workers=4, pin_memory=True)
    count = torch.zeros((), device=device)
    net.eval()
    with torch.inference_mode():
        for pictures, labels in loader:
            found = net(pictures.to(device, non_blocking=True)).sigmoid() > 0.5
            count += (~found & labels.to(device, non_blocking=True).bool()).sum()  # expect: ESP226
    return count


def main(net, images):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank())
    print("missed defects:", missed(net.to(device), images, device).item())
