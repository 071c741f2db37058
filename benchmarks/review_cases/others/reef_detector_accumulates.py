"""Accumulates over unequal groups of frames; a step is taken when enough boxes were seen."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Heat(nn.Module):
    def __init__(self, species=4):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()
        )
        self.heat = nn.Conv2d(64, species, 1)
        nn.init.constant_(self.heat.bias, -2.19)

    def forward(self, frames):
        return self.heat(self.net(frames))


def penalty_focal(logits, goal):
    p = logits.sigmoid()
    on = goal.eq(1).float()
    pos = F.logsigmoid(logits) * (1 - p) ** 2 * on
    neg = F.logsigmoid(-logits) * p**2 * (1 - goal) ** 4 * (1 - on)
    return -(pos.sum() + neg.sum()) / on.sum().clamp(min=1)


def train(model, frames_loader, device, epochs, boxes_per_step=256):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.to(device)
    for epoch in range(epochs):
        model.train()
        opt.zero_grad()
        gathered, running = 0, torch.zeros((), device=device)
        for frames, goal, n_boxes in frames_loader:
            loss = penalty_focal(model(frames.to(device)), goal.to(device))
            loss.backward()
            running += loss.detach()
            gathered += n_boxes
            if gathered < boxes_per_step:
                continue
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            opt.step()
            opt.zero_grad(set_to_none=True)
            gathered = 0
        if gathered:
            opt.step()
        print(epoch, running.item() / max(len(frames_loader), 1))
