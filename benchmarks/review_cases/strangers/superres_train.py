"""Single-image super-resolution by four, L1 and a frequency loss."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Upscaler(nn.Module):
    def __init__(self, width=64, blocks=8, scale=4):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(blocks)
        )
        self.tail = nn.Sequential(nn.Conv2d(width, 3 * scale**2, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, low):
        h = self.head(low)
        for block in self.body:
            h = h + 0.1 * block(h)
        return self.tail(h)


def frequency_loss(guess, high):
    return (torch.fft.rfft2(guess) - torch.fft.rfft2(high)).abs().mean()


def train(loader, iterations=300_000, device="cuda"):
    net = Upscaler().to(device).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [200_000, 250_000], 0.5)
    running_l1, running_psnr, step = 0.0, 0.0, 0
    while step < iterations:
        for low, high in loader:
            low, high = low.to(device, non_blocking=True), high.to(device, non_blocking=True)
            guess = net(low)
            l1 = F.l1_loss(guess, high)
            loss = l1 + 0.05 * frequency_loss(guess, high)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            running_l1 += l1.item()  # expect: ESP305
            mse = F.mse_loss(guess.detach(), high)
            step += 1
            if step % 1000 == 0:
                running_psnr = -10 * math.log10(mse.item())
                print(f"{step} l1 {running_l1 / 1000:.4f} psnr {running_psnr:.2f}")
                running_l1 = 0.0
    return net
