"""DCGAN on faces."""
import argparse

import torch
import torch.nn as nn
import torch.optim as optim
from torchvision import datasets, transforms, utils as vutils

parser = argparse.ArgumentParser()
parser.add_argument("--dataroot", required=True)
parser.add_argument("--nz", type=int, default=100)
parser.add_argument("--ngf", type=int, default=64)
parser.add_argument("--niter", type=int, default=25)
opt = parser.parse_args()

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
dataset = datasets.ImageFolder(
    opt.dataroot,
    transforms.Compose([transforms.Resize(32), transforms.CenterCrop(32), transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)]),
)
dataloader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2, drop_last=True)


class Generator(nn.Module):
    def __init__(self, nz, ngf):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 4), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self, ndf=64):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, ndf, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1), nn.BatchNorm2d(ndf * 2), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1), nn.BatchNorm2d(ndf * 4), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ndf * 4, 1, 4, 1, 0),
        )

    def forward(self, x):
        return self.main(x).view(-1)


netG, netD = Generator(opt.nz, opt.ngf).to(device), Discriminator().to(device)
criterion = nn.BCEWithLogitsLoss()
optimizerD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
fixed_noise = torch.randn(64, opt.nz, 1, 1, device=device)

for epoch in range(opt.niter):
    for i, (real, _) in enumerate(dataloader):
        # (1) discriminator
        netD.zero_grad()
        real = real.to(device)
        b = real.size(0)
        label = torch.full((b,), 1.0, device=device)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        noise = torch.randn(b, opt.nz, 1, 1, device=device)
        fake = netG(noise)
        errD_fake = criterion(netD(fake.detach()), torch.zeros_like(label))
        errD_fake.backward()
        optimizerD.step()

        # (2) generator
        errG = criterion(netD(fake), label)
        errG.backward()  # expect: ESP101
        optimizerG.step()

        if i % 100 == 0:
            print(f"[{epoch}/{opt.niter}][{i}] D {(errD_real + errD_fake).item():.3f} G {errG.item():.3f}")
    with torch.no_grad():
        vutils.save_image(netG(fixed_noise), f"fake_{epoch:03d}.png", normalize=True)  # allow: ESP102
