import argparse
import math

import torch

from data import make_loader
from model import CharGPT


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    total, count = 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        _, loss = model(x, labels=y)
        total += loss.item() * x.size(0)
        count += x.size(0)
    model.train()
    return total / count


def lr_at(step, base, warmup, total):
    if step < warmup:
        return base * (step + 1) / warmup
    t = (step - warmup) / max(1, total - warmup)
    return 0.5 * base * (1 + math.cos(math.pi * min(1.0, t)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("corpus")
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--lr", type=float, default=3e-4)
    args = ap.parse_args()
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1337)
    tr = make_loader(args.corpus, 256, 64, "train")
    va = make_loader(args.corpus, 256, 64, "val")
    model = CharGPT().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    total = args.epochs * len(tr)
    step = 0
    for epoch in range(args.epochs):
        for x, y in tr:
            for g in opt.param_groups:
                g["lr"] = lr_at(step, args.lr, 200, total)
            _, loss = model(x.to(dev), labels=y.to(dev))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f}")
            step += 1
        print(f"epoch {epoch} val {validate(model, va, dev):.4f}")
    model.eval()
    out = model.generate(torch.tensor([[10]], device=dev), 200)
    print(bytes(out[0].tolist()).decode("utf8", "replace"))


if __name__ == "__main__":
    main()
