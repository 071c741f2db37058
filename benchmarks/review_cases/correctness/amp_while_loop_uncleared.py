from itertools import cycle

import torch
import torch.nn.functional as nnf
from diffusers import UNet2DModel


def alpha_bar(steps):
    betas = torch.linspace(1e-4, 0.02, steps)
    return torch.cumprod(1 - betas, dim=0)


def train(loader, total=200_000, device="cuda", steps=1000):
    unet = UNet2DModel(sample_size=64, in_channels=3, out_channels=3).to(device)
    optim = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    abar = alpha_bar(steps).to(device)
    stream = cycle(loader)
    unet.train()
    it = 0
    while it < total:
        batch = next(stream)
        images = batch["image"].to(device, non_blocking=True)
        noise = torch.randn_like(images)
        t = torch.randint(0, steps, (images.shape[0],), device=device)
        a = abar[t][:, None, None, None]
        noisy = a.sqrt() * images + (1 - a).sqrt() * noise
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nnf.mse_loss(unet(noisy, t).sample.float(), noise)
        scaler.scale(loss).backward()  # expect: ESP101
        scaler.unscale_(optim)
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        scaler.step(optim)
        scaler.update()
        it += 1
        if it % 1000 == 0:
            print(it, loss.item())
            torch.save(unet.state_dict(), f"unet_{it}.pt")
