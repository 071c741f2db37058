"""Entry point: numeric settings first, then training."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def configure(fast):
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = fast
    torch.backends.cudnn.conv.fp32_precision = "tf32" if fast else "ieee"  # expect: ESP510


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--exact", action="store_true")
    args = ap.parse_args()
    seed_everything(args.seed)
    configure(not args.exact)
    net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).cuda()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(1000):
        x, y = torch.randn(64, 3, 32, 32, device="cuda"), torch.randint(10, (64,), device="cuda")
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
