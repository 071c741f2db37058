"""torchrun --nproc-per-node 8 train.py"""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms


def setup():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    return rank


def main():
    rank = setup()
    tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    dataset = datasets.ImageFolder("/data/imagenet/train", tf)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=256, sampler=sampler, num_workers=8, pin_memory=True)
    model = DDP(models.resnet50().cuda(rank), device_ids=[rank])
    criterion = nn.CrossEntropyLoss().cuda(rank)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    model.train()
    for epoch in range(90):  # expect: ESP204
        for i, (images, target) in enumerate(loader):
            images, target = images.cuda(rank, non_blocking=True), target.cuda(rank, non_blocking=True)
            loss = criterion(model(images), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and i % 100 == 0:
                print(epoch, i, loss.item())
        if rank == 0:
            torch.save(model.module.state_dict(), f"resnet50_{epoch}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
