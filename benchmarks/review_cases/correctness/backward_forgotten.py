import torch
from torch import nn


def loss_of(model, frames, labels):
    return nn.functional.cross_entropy(model(frames), labels, label_smoothing=0.1)


def train_epoch(model, loader, optimizer, scheduler):
    model.train()
    seen, total = 0, 0.0
    for frames, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, frames, labels)
        optimizer.step()  # expect: ESP108
        scheduler.step()
        seen += len(labels)
        total += loss.detach() * len(labels)
    return total / seen


def main(model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    for _ in range(10):
        print(train_epoch(model, loader, optimizer, scheduler))
