"""Optimises a printable patch that hides a person from a detector."""

import random

import torch
import torch.nn.functional as F


def total_variation(patch):
    return (patch[:, 1:] - patch[:, :-1]).abs().mean() + (patch[:, :, 1:] - patch[:, :, :-1]).abs().mean()


def paste(images, patch, boxes):
    out = images.clone()
    for row, (x, y, side) in enumerate(boxes):
        small = F.interpolate(patch[None], size=(side, side), mode="bilinear", align_corners=False)[0]
        out[row, :, y : y + side, x : x + side] = small
    return out


class PatchAttack:
    def __init__(self, detector, size=300, lr=0.03, device="cuda"):
        self.detector = detector.eval().requires_grad_(False).to(device)
        self.device = device
        self.patch = torch.rand(3, size, size, device=device, requires_grad=True)
        self.opt = torch.optim.Adam([self.patch], lr=lr, amsgrad=True)

    def step(self, images, boxes):
        images = images.to(self.device)
        jitter = random.uniform(0.8, 1.2)
        objectness = self.detector(paste(images, (self.patch * jitter).clamp(0, 1), boxes))
        loss = objectness.amax(dim=1).mean() + 2.5 * total_variation(self.patch)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.patch.clamp_(0.001, 0.999)  # expect: ESP106
        return loss.detach()

    def run(self, loader, epochs):
        for _ in range(epochs):
            totals = [self.step(images, boxes) for images, boxes in loader]
            print(torch.stack(totals).mean().item())
        return self.patch.detach().cpu()
