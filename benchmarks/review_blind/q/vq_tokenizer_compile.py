"""Image tokenizer with an annealed quantizer, trained under torch.compile."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.GroupNorm(8, dim), nn.SiLU(), nn.Conv2d(dim, dim, 3, 1, 1),
                                 nn.GroupNorm(8, dim), nn.SiLU(), nn.Conv2d(dim, dim, 3, 1, 1))

    def forward(self, x):
        return x + self.net(x)


class GumbelQuantizer(nn.Module):
    def __init__(self, dim, codes, code_dim, warm_steps=20000, t_start=1.0, t_end=0.0625):
        super().__init__()
        self.to_logits = nn.Conv2d(dim, codes, 1)
        self.codebook = nn.Embedding(codes, code_dim)
        self.warm_steps = warm_steps
        self.t_start, self.t_end = t_start, t_end
        self.num_updates = 0

    def temperature(self):
        frac = min(self.num_updates / self.warm_steps, 1.0)
        return self.t_end + 0.5 * (self.t_start - self.t_end) * (1 + math.cos(math.pi * frac))

    def forward(self, h):
        logits = self.to_logits(h)
        if self.training:
            self.num_updates += 1
            soft = F.gumbel_softmax(logits.float(), tau=self.temperature(), dim=1)
        else:
            soft = F.one_hot(logits.argmax(1), logits.size(1)).permute(0, 3, 1, 2).to(h.dtype)
        z = torch.einsum("bkhw,kd->bdhw", soft.to(h.dtype), self.codebook.weight.to(h.dtype))
        probs = logits.float().softmax(1)
        kl = (probs * torch.log(probs * logits.size(1) + 1e-10)).sum(1).mean()
        return z, kl


class Tokenizer(nn.Module):
    def __init__(self, dim=128, codes=8192, code_dim=256, depth=2):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, dim, 4, 4), *[ResBlock(dim) for _ in range(depth)],
            nn.Conv2d(dim, dim, 4, 2, 1), *[ResBlock(dim) for _ in range(depth)])
        self.quantizer = GumbelQuantizer(dim, codes, code_dim)
        self.decoder = nn.Sequential(
            nn.Conv2d(code_dim, dim, 3, 1, 1), *[ResBlock(dim) for _ in range(depth)],
            nn.Upsample(scale_factor=2), nn.Conv2d(dim, dim, 3, 1, 1),
            *[ResBlock(dim) for _ in range(depth)],
            nn.Conv2d(dim, 3 * 16, 1), nn.PixelShuffle(4))

    def forward(self, images):
        z, kl = self.quantizer(self.encoder(images))
        recon = self.decoder(z)
        return recon, kl


def cosine_lr(step, warmup, total):
    if step < warmup:
        return step / max(1, warmup)
    progress = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


def train(loader, total_steps=100_000, lr=3e-4, kl_weight=5e-4, device="cuda"):
    model = Tokenizer().to(device)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: cosine_lr(s, 1000, total_steps))
    step = 0
    while step < total_steps:
        for images in loader:
            images = images.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                recon, kl = compiled(images)
            loss = F.mse_loss(recon.float(), images) + kl_weight * kl
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % 500 == 0:
                print(step, loss.item())
            if step >= total_steps:
                break
    return model
