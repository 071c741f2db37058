"""Language-model pretraining from tokenised .npy shards."""
import argparse
import glob
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset


class TokenShards(IterableDataset):
    """Streams fixed-size blocks from memory-mapped uint16 shards."""

    def __init__(self, pattern, block, seed):
        super().__init__()
        self.files = sorted(glob.glob(pattern))
        self.block, self.seed, self.epoch = block, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def _blocks(self, path, rng):
        tokens = np.load(path, mmap_mode="r")
        n = (len(tokens) - 1) // self.block
        for j in rng.permutation(n):
            s = int(j) * self.block
            chunk = torch.from_numpy(tokens[s:s + self.block + 1].astype(np.int64))
            yield chunk[:-1], chunk[1:]

    def __iter__(self):
        rng = np.random.default_rng([self.seed, self.epoch])
        for i in rng.permutation(len(self.files)):
            yield from self._blocks(self.files[i], rng)


class TinyLM(nn.Module):
    def __init__(self, vocab, d=384, layers=6, heads=6, block=512):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(block, d)
        layer = nn.TransformerEncoderLayer(d, heads, 4 * d, 0.0, "gelu", batch_first=True, norm_first=True)
        self.core = nn.TransformerEncoder(layer, layers, nn.LayerNorm(d), enable_nested_tensor=False)
        self.head = nn.Linear(d, vocab, bias=False)
        self.head.weight = self.tok.weight
        nn.init.normal_(self.tok.weight, std=0.02)
        mask = torch.triu(torch.ones(block, block, dtype=torch.bool), diagonal=1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        t = x.size(1)
        h = self.tok(x) + self.pos.weight[:t]
        return self.head(self.core(h, mask=self.mask[:t, :t]))


def schedule(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup))))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--shards", default="fineweb/train_*.npy")
    ap.add_argument("--vocab", type=int, default=32000)
    ap.add_argument("--steps", type=int, default=50_000)
    ap.add_argument("--workers", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(0)
    dev = torch.device("cuda")
    ds = TokenShards(args.shards, 512, seed=0)
    loader = DataLoader(ds, batch_size=32, num_workers=args.workers, pin_memory=True, drop_last=True)
    net = TinyLM(args.vocab).to(dev)
    opt = torch.optim.AdamW(net.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: schedule(s, 500, args.steps))
    step, epoch = 0, 0
    while step < args.steps:
        ds.set_epoch(epoch)
        for x, y in loader:
            x, y = x.to(dev, non_blocking=True), y.to(dev, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            sched.step()
            if step % 200 == 0:
                print(f"{step} loss {loss.item():.3f}")
            step += 1
            if step >= args.steps:
                break
        epoch += 1
    torch.save(net.state_dict(), "tinylm.pt")


if __name__ == "__main__":
    main()
