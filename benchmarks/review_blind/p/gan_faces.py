"""DCGAN-style training on 64x64 aligned faces, non-saturating loss."""
import os
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder
from torchvision.utils import save_image


@dataclass
class GanCfg:
    root: str = "faces64"
    z: int = 128
    width: int = 64
    batch: int = 64
    lr: float = 2e-4
    betas: tuple = field(default_factory=lambda: (0.5, 0.999))
    iters: int = 60_000
    out: str = "gan_out"


def generator(z, w):
    layers, cin = [], z
    for i, c in enumerate((8 * w, 4 * w, 2 * w, w)):
        layers += [nn.ConvTranspose2d(cin, c, 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False),
                   nn.BatchNorm2d(c), nn.ReLU(True)]
        cin = c
    return nn.Sequential(*layers, nn.ConvTranspose2d(cin, 3, 4, 2, 1), nn.Tanh())


def discriminator(w):
    layers, cin = [], 3
    for c in (w, 2 * w, 4 * w, 8 * w):
        layers += [nn.utils.spectral_norm(nn.Conv2d(cin, c, 4, 2, 1)), nn.LeakyReLU(0.2)]
        cin = c
    return nn.Sequential(*layers, nn.utils.spectral_norm(nn.Conv2d(cin, 1, 4)), nn.Flatten(0))


class Game:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.G = generator(cfg.z, cfg.width).to(device)
        self.D = discriminator(cfg.width).to(device)
        self.opt_g = torch.optim.Adam(self.G.parameters(), cfg.lr, cfg.betas)
        self.opt_d = torch.optim.Adam(self.D.parameters(), cfg.lr, cfg.betas)

    def noise(self, n):
        return torch.randn(n, self.cfg.z, 1, 1, device=self.device)

    def d_loss(self, real, fake):
        return F.softplus(-self.D(real)).mean() + F.softplus(self.D(fake)).mean()

    def g_loss(self, fake):
        return F.softplus(-self.D(fake)).mean()

    def step(self, real):
        self.opt_d.zero_grad(set_to_none=True)
        self.opt_g.zero_grad(set_to_none=True)
        fake = self.G(self.noise(real.size(0)))
        d_loss = self.d_loss(real, fake)
        d_loss.backward(retain_graph=True)
        self.opt_d.step()
        g_loss = self.g_loss(fake)
        g_loss.backward()
        self.opt_g.step()
        return d_loss.detach(), g_loss.detach()

    @torch.no_grad()
    def preview(self, fixed, path):
        self.G.eval()
        save_image(self.G(fixed) * 0.5 + 0.5, path, nrow=8)
        self.G.train()


def infinite(loader):
    while True:
        yield from loader


def main():
    cfg = GanCfg()
    torch.manual_seed(0)
    os.makedirs(cfg.out, exist_ok=True)
    device = torch.device("cuda")
    tf = T.Compose([T.Resize(64), T.CenterCrop(64), T.RandomHorizontalFlip(), T.ToTensor(),
                    T.Normalize((0.5,) * 3, (0.5,) * 3)])
    loader = DataLoader(ImageFolder(cfg.root, tf), cfg.batch, shuffle=True, num_workers=8,
                        drop_last=True, pin_memory=True)
    game = Game(cfg, device)
    fixed = game.noise(64)
    for it, (real, _) in zip(range(cfg.iters), infinite(loader)):
        d, g = game.step(real.to(device, non_blocking=True))
        if it % 500 == 0:
            print(f"{it} d {d.item():.3f} g {g.item():.3f}")
            game.preview(fixed, f"{cfg.out}/{it:06d}.png")
    torch.save(game.G.state_dict(), f"{cfg.out}/G.pt")


if __name__ == "__main__":
    main()
