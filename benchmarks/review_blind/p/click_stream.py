"""CTR model on a click log, streamed from gzip shards on several ranks and workers."""
import glob
import gzip
import itertools
import os
import zlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

N_DENSE, N_CAT, BUCKETS = 13, 26, 200_003


class ClickShards(IterableDataset):
    def __init__(self, pattern, rank=0, world=1, shuffle_buffer=0):
        super().__init__()
        self.files = sorted(glob.glob(pattern))
        self.rank, self.world, self.buffer = rank, world, shuffle_buffer

    def _my_files(self):
        info = get_worker_info()
        w, n = (info.id, info.num_workers) if info is not None else (0, 1)
        return self.files[self.rank * n + w::self.world * n]

    def _parse(self, line):
        f = line.rstrip("\n").split("\t")
        dense = [float(v) if v else 0.0 for v in f[1:1 + N_DENSE]]
        cats = [zlib.crc32(f"{i}:{v}".encode()) % BUCKETS for i, v in enumerate(f[1 + N_DENSE:])]
        return np.asarray(dense, dtype=np.float32), np.asarray(cats, dtype=np.int64), np.float32(f[0])

    def _rows(self):
        for path in self._my_files():
            with gzip.open(path, "rt") as fh:
                for line in fh:
                    yield self._parse(line)

    def __iter__(self):
        if not self.buffer:
            yield from self._rows()
            return
        rows = self._rows()
        buf = list(itertools.islice(rows, self.buffer))
        for row in rows:
            j = np.random.randint(len(buf))
            buf[j], row = row, buf[j]
            yield row
        np.random.shuffle(buf)
        yield from buf


class DeepFM(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.first = nn.Embedding(BUCKETS, 1)
        self.emb = nn.Embedding(BUCKETS, d)
        nn.init.zeros_(self.first.weight)
        nn.init.normal_(self.emb.weight, std=0.01)
        self.dense = nn.Linear(N_DENSE, d)
        self.mlp = nn.Sequential(nn.Linear((N_CAT + 1) * d, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(),
                                 nn.Linear(64, 1))

    def forward(self, dense, cats):
        e = torch.cat([self.emb(cats), self.dense(dense).unsqueeze(1)], dim=1)
        fm = 0.5 * (e.sum(dim=1).square() - e.square().sum(dim=1)).sum(dim=-1)
        lin = self.first(cats).sum(dim=(1, 2))
        return lin + fm + self.mlp(e.flatten(1)).squeeze(-1)


def prep(batch, device):
    dense, cats, y = (t.to(device, non_blocking=True) for t in batch)
    return torch.log1p(dense.clamp(min=0)), cats, y


@torch.inference_mode()
def log_loss(model, loader, device):
    model.eval()
    tot, n = torch.zeros((), dtype=torch.float64, device=device), 0
    for batch in loader:
        dense, cats, y = prep(batch, device)
        tot += F.binary_cross_entropy_with_logits(model(dense, cats), y, reduction="sum")
        n += y.numel()
    return tot.item() / n


def main():
    torch.manual_seed(0)
    root = os.environ.get("CLICKS", "criteo")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tl = DataLoader(ClickShards(f"{root}/train_*.gz", shuffle_buffer=50_000), 8192, num_workers=8, pin_memory=True)
    vl = DataLoader(ClickShards(f"{root}/valid_*.gz"), 16384, num_workers=4, pin_memory=True)
    model = DeepFM().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        model.train()
        for i, batch in enumerate(tl):
            dense, cats, y = prep(batch, device)
            loss = F.binary_cross_entropy_with_logits(model(dense, cats), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if i % 500 == 0:
                print(epoch, i, f"{loss.item():.5f}")
        print("valid", log_loss(model, vl, device))


if __name__ == "__main__":
    main()
