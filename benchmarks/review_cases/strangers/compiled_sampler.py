"""Guided sampling of a compiled diffusion model."""
import torch
import torch.nn as nn


class Guided(nn.Module):
    def __init__(self, denoiser):
        super().__init__()
        self.denoiser = denoiser
        self.position = 0

    def forward(self, x, label):
        t = torch.full((len(x),), self.position, device=x.device)  # expect: ESP506 @position
        with_label = self.denoiser(x, t, label)
        without = self.denoiser(x, t, torch.zeros_like(label))
        weight = 1.5 + 0.01 * self.position
        return without + weight * (with_label - without)


@torch.no_grad()
def sample(denoiser, labels, betas, size=64, device="cuda"):
    guided = Guided(denoiser.to(device).eval())
    step = torch.compile(guided)
    betas = betas.to(device)
    alphas = 1 - betas
    bars = alphas.cumprod(0)
    x = torch.randn(len(labels), 3, size, size, device=device)
    labels = labels.to(device)
    for t in reversed(range(len(betas))):
        guided.position = t  # expect: ESP506 @position
        noise = step(x, labels)
        x = (x - betas[t] / (1 - bars[t]).sqrt() * noise) / alphas[t].sqrt()
        if t > 0:
            x = x + betas[t].sqrt() * torch.randn_like(x)
    return x.clamp(-1, 1)
