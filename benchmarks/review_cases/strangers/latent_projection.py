"""Finds the latent code of a portrait in a pretrained generator."""
import torch
import torch.nn.functional as F


def project(generator, features, portrait, steps=400, lr=0.05, bound=2.5):
    """Return the latent whose picture looks most like `portrait`, within `bound` of the mean."""
    device = portrait.device
    generator.eval().requires_grad_(False)
    with torch.no_grad():
        wanted = features(portrait)
        mean = generator.mapping(torch.randn(4096, generator.z_dim, device=device)).mean(0, keepdim=True)

    latent = mean.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([latent], lr=lr, betas=(0.9, 0.99))
    for step in range(steps):
        ramp = min(1.0, step / (0.1 * steps))
        for group in optimizer.param_groups:
            group["lr"] = lr * ramp
        picture = generator.synthesis(latent)
        loss = F.mse_loss(features(picture), wanted) + 0.1 * F.l1_loss(picture, portrait)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        latent.clamp_(-bound, bound)  # expect: ESP106
        if step % 50 == 0:
            print(f"{step:4d} {loss.item():.5f}")
    return latent.detach()


def edit(generator, latent, direction, strengths=(-3, -1, 1, 3)):
    with torch.no_grad():
        return [generator.synthesis(latent + s * direction) for s in strengths]
