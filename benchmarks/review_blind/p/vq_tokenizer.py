"""VQ-VAE image tokenizer."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(nn.GroupNorm(16, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1),
                                 nn.GroupNorm(16, c), nn.SiLU(), nn.Conv2d(c, c, 1))

    def forward(self, x):
        return x + self.net(x)


class VectorQuantizer(nn.Module):
    def __init__(self, n_codes, dim, commitment=0.25):
        super().__init__()
        self.codebook = nn.Embedding(n_codes, dim)
        nn.init.uniform_(self.codebook.weight, -1 / n_codes, 1 / n_codes)
        self.n_codes, self.commitment = n_codes, commitment

    def nearest(self, flat):
        w = self.codebook.weight
        d = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ w.t() + w.pow(2).sum(1)
        return d.argmin(dim=1)

    def forward(self, z):
        b, c, h, w = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, c)
        with torch.no_grad():
            idx = self.nearest(flat)
        q = self.codebook(idx).view(b, h, w, c).permute(0, 3, 1, 2)
        loss = F.mse_loss(q, z.detach()) + self.commitment * F.mse_loss(z, q.detach())
        q = z + (q - z)
        return q, loss, idx.view(b, h, w)

    @torch.no_grad()
    def perplexity(self, idx):
        p = torch.bincount(idx.flatten(), minlength=self.n_codes).float()
        p = p / p.sum()
        return torch.exp(-(p * torch.log(p + 1e-10)).sum())


class Tokenizer(nn.Module):
    def __init__(self, c=128, dim=64, n_codes=1024):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(3, c, 4, 2, 1), ResBlock(c), nn.Conv2d(c, c, 4, 2, 1), ResBlock(c),
            nn.Conv2d(c, c, 4, 2, 1), ResBlock(c), nn.Conv2d(c, dim, 1))
        self.vq = VectorQuantizer(n_codes, dim)
        self.dec = nn.Sequential(
            nn.Conv2d(dim, c, 3, padding=1), ResBlock(c), nn.ConvTranspose2d(c, c, 4, 2, 1),
            ResBlock(c), nn.ConvTranspose2d(c, c, 4, 2, 1), ResBlock(c), nn.ConvTranspose2d(c, 3, 4, 2, 1))

    def forward(self, x):
        q, loss, idx = self.vq(self.enc(x))
        return self.dec(q), loss, idx


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("root")
    ap.add_argument("--size", type=int, default=128)
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--lr", type=float, default=3e-4)
    args = ap.parse_args()
    torch.manual_seed(0)
    dev = torch.device("cuda")
    tf = T.Compose([T.Resize(args.size), T.RandomCrop(args.size), T.RandomHorizontalFlip(),
                    T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3)])
    dl = DataLoader(ImageFolder(args.root, tf), 64, shuffle=True, num_workers=8, drop_last=True, pin_memory=True)
    model = Tokenizer().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.99))
    step = 0
    for epoch in range(args.epochs):
        model.train()
        for x, _ in dl:
            x = x.to(dev, non_blocking=True)
            rec, vq_loss, idx = model(x)
            rec_loss = F.l1_loss(rec, x)
            loss = rec_loss + vq_loss
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if step % 200 == 0:
                print(f"{step} rec {rec_loss.item():.4f} vq {vq_loss.item():.4f} "
                      f"ppl {model.vq.perplexity(idx).item():.1f}")
            step += 1
        torch.save(model.state_dict(), f"tokenizer_{epoch}.pt")


if __name__ == "__main__":
    main()
