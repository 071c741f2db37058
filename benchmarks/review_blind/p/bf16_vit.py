"""ViT-small trained in bfloat16 autocast with mixup."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, n_classes, size=224, patch=16, d=384, depth=12, heads=6):
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, d) * 0.02)
        self.blocks = nn.Sequential(*[Block(d, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, n_classes)

    def forward(self, x):
        h = self.patch(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.cls.expand(h.size(0), -1, -1), h], dim=1) + self.pos
        return self.head(self.norm(self.blocks(h))[:, 0])


def mixup(x, y, n_classes, alpha=0.2):
    lam = torch.distributions.Beta(alpha, alpha).sample((x.size(0),)).to(x.device)
    perm = torch.randperm(x.size(0), device=x.device)
    onehot = F.one_hot(y, n_classes).to(x.dtype)
    lx, ly = lam.view(-1, 1, 1, 1), lam.view(-1, 1)
    return lx * x + (1 - lx) * x[perm], ly * onehot + (1 - ly) * onehot[perm]


def lr_lambda(warmup, total):
    def f(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
    return f


@torch.inference_mode()
def top1(model, loader, device):
    model.eval()
    hit = torch.zeros((), device=device, dtype=torch.long)
    n = 0
    for x, y in loader:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(x.to(device, non_blocking=True))
        hit += (logits.argmax(dim=-1) == y.to(device)).sum()
        n += y.numel()
    return hit.item() / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("root")
    ap.add_argument("--epochs", type=int, default=100)
    ap.add_argument("--batch", type=int, default=256)
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    norm = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    tr = ImageFolder(f"{args.root}/train", T.Compose(
        [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), norm]))
    va = ImageFolder(f"{args.root}/val", T.Compose(
        [T.Resize(256), T.CenterCrop(224), T.ToTensor(), norm]))
    tl = DataLoader(tr, args.batch, shuffle=True, num_workers=12, pin_memory=True, drop_last=True)
    vl = DataLoader(va, args.batch, num_workers=8, pin_memory=True)
    n_classes = len(tr.classes)
    model = ViT(n_classes).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_lambda(1000, args.epochs * len(tl)))
    for epoch in range(args.epochs):
        model.train()
        for i, (x, y) in enumerate(tl):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            x, target = mixup(x, y, n_classes)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                logits = model(x)
                loss = F.cross_entropy(logits, target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            opt.zero_grad(set_to_none=True)
            if i % 100 == 0:
                print(epoch, i, f"{loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}")
        print(f"epoch {epoch} top1 {top1(model, vl, device):.4f}")


if __name__ == "__main__":
    main()
