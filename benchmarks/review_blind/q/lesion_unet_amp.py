"""Mixed precision training of a 2D U-Net for lesion masks."""
import argparse
import logging
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader


def soft_dice(probs, target, eps=1e-6):
    dims = (-1, -2)
    inter = 2 * (probs * target).sum(dim=dims)
    total = probs.sum(dim=dims) + target.sum(dim=dims)
    return ((inter + eps) / (total + eps)).mean()


@torch.inference_mode()
def evaluate(net, loader, device, amp):
    net.eval()
    score, batches = 0.0, 0
    with torch.autocast(device.type, enabled=amp):
        for images, masks in loader:
            images, masks = images.to(device), masks.to(device).float()
            pred = (net(images).squeeze(1).sigmoid() > 0.5).float()
            score += soft_dice(pred, masks).item()
            batches += 1
    net.train()
    return score / max(batches, 1)


def train_model(net, train_set, val_set, device, epochs=20, batch_size=8, lr=1e-4,
                amp=True, gradient_clipping=1.0, ckpt_dir=Path("checkpoints")):
    train_loader = DataLoader(train_set, shuffle=True, batch_size=batch_size,
                              num_workers=8, pin_memory=True)
    val_loader = DataLoader(val_set, shuffle=False, drop_last=False,
                            batch_size=batch_size, num_workers=8)
    optimizer = optim.RMSprop(net.parameters(), lr=lr, weight_decay=1e-8, momentum=0.99)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=5)
    grad_scaler = torch.amp.GradScaler(device.type, enabled=amp)
    criterion = nn.BCEWithLogitsLoss()
    ckpt_dir.mkdir(parents=True, exist_ok=True)
    best = 0.0
    for epoch in range(1, epochs + 1):
        net.train()
        running = 0.0
        for images, masks in train_loader:
            images = images.to(device, memory_format=torch.channels_last)
            masks = masks.to(device).float()
            with torch.autocast(device.type, enabled=amp):
                logits = net(images).squeeze(1)
                loss = criterion(logits, masks)
                loss = loss + 1 - soft_dice(logits.float().sigmoid(), masks)
            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), gradient_clipping)
            grad_scaler.step(optimizer)
            grad_scaler.update()
            running += loss.item()
        val_score = evaluate(net, val_loader, device, amp)
        scheduler.step(val_score)
        logging.info("epoch %d loss %.4f dice %.4f", epoch, running / len(train_loader), val_score)
        if val_score > best:
            best = val_score
            torch.save(net.state_dict(), ckpt_dir / "best.pth")
    return best


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--amp", action="store_true")
    return parser.parse_args()
