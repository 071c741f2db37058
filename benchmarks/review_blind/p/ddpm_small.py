import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


@dataclass
class DDPMConfig:
    steps: int = 1000
    channels: int = 64
    batch: int = 128
    lr: float = 2e-4
    seed: int = 7
    iters: int = 100_000


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
    ang = t[:, None].float() * freqs[None]
    return torch.cat([ang.sin(), ang.cos()], dim=-1)


class Res(nn.Module):
    def __init__(self, c, emb):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(8, c), nn.GroupNorm(8, c)
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.emb = nn.Linear(emb, c)

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class Denoiser(nn.Module):
    def __init__(self, c, depth=6):
        super().__init__()
        self.c = c
        self.inp, self.out = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.temb = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        self.blocks = nn.ModuleList(Res(c, 4 * c) for _ in range(depth))

    def forward(self, x, t):
        e = self.temb(timestep_embedding(t, self.c))
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, e)
        return self.out(h)


class Diffusion(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        beta = torch.linspace(1e-4, 0.02, cfg.steps)
        self.register_buffer("beta", beta)
        self.register_buffer("abar", torch.cumprod(1 - beta, dim=0))
        self.net = Denoiser(cfg.channels)

    def draw(self, shape, device):
        g = torch.Generator(device=device).manual_seed(self.cfg.seed)
        t = torch.randint(0, self.cfg.steps, (shape[0],), generator=g, device=device)
        noise = torch.randn(shape, generator=g, device=device)
        return t, noise

    def loss(self, x0):
        t, noise = self.draw(x0.shape, x0.device)
        a = self.abar[t].view(-1, 1, 1, 1)
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        return F.mse_loss(self.net(xt, t), noise)

    def sample(self, n, size=32):
        dev = self.beta.device
        x = torch.randn(n, 3, size, size, device=dev)
        for i in reversed(range(self.cfg.steps)):
            t = torch.full((n,), i, device=dev, dtype=torch.long)
            eps = self.net(x, t)
            a, ab, b = 1 - self.beta[i], self.abar[i], self.beta[i]
            mean = (x - b / (1 - ab).sqrt() * eps) / a.sqrt()
            x = mean + b.sqrt() * torch.randn_like(x) if i > 0 else mean
        return x.clamp(-1, 1)


def main():
    cfg = DDPMConfig()
    torch.manual_seed(cfg.seed)
    dev = torch.device("cuda")
    tf = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                             transforms.Normalize((0.5,) * 3, (0.5,) * 3)])
    loader = DataLoader(datasets.CIFAR10("data", transform=tf, download=True), cfg.batch,
                        shuffle=True, num_workers=4, drop_last=True, pin_memory=True)
    model = Diffusion(cfg).to(dev)
    opt = torch.optim.AdamW(model.parameters(), cfg.lr)
    it = 0
    while it < cfg.iters:
        for x, _ in loader:
            loss = model.loss(x.to(dev, non_blocking=True))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if it % 5000 == 0:
                print(it, loss.item())
                torch.save(model.sample(16).cpu(), f"samples_{it}.pt")
            it += 1


if __name__ == "__main__":
    main()
