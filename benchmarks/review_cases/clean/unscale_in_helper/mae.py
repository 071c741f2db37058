import math

import torch
import torch.nn as nn

from amp import NativeScaler


def adjust(optimizer, progress, base, warm=0.05):
    lr = base * progress / warm if progress < warm else base * 0.5 * (1 + math.cos(math.pi * (progress - warm) / (1 - warm)))
    for group in optimizer.param_groups:
        group["lr"] = lr


def train_one_epoch(model: nn.Module, loader, optimizer, scaler: NativeScaler, epoch, epochs, device, accum=4, base=1.5e-4):
    model.train(True)
    optimizer.zero_grad()
    for i, (images, _) in enumerate(loader):
        if i % accum == 0:
            adjust(optimizer, (i / len(loader) + epoch) / epochs, base)
        images = images.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss, _, _ = model(images, mask_ratio=0.75)
        last = (i + 1) % accum == 0
        scaler(loss / accum, optimizer, model.parameters(), max_norm=1.0, update=last)
        if last:
            optimizer.zero_grad()
        if i % 100 == 0:
            print(epoch, i, loss.item())
