"""Distributed training of a detector backbone, and export."""
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build(classes):
    return nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes))


def train(args, loader, sampler):
    local = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.cuda.set_device(local)
    model = DDP(build(args.classes).cuda(local), device_ids=[local])
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = criterion(model(x.cuda(local)), y.cuda(local))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), args.out)


def export(args):
    model = build(args.classes)
    model.load_state_dict(torch.load(args.out, map_location="cpu", weights_only=True))  # expect: ESP112
    model.eval()
    torch.onnx.export(model, torch.randn(1, 3, 224, 224), args.onnx)
