"""Speaker emotion recognition: group split, length-masked pooling, class-weighted loss."""
import argparse
import json
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


def split_by_speaker(rows, seed, val=0.15, test=0.15):
    speakers = sorted({r["speaker"] for r in rows})
    np.random.default_rng(seed).shuffle(speakers)
    a, b = int(len(speakers) * test), int(len(speakers) * (test + val))
    part = {s: "test" if i < a else "val" if i < b else "train" for i, s in enumerate(speakers)}
    out = {"train": [], "val": [], "test": []}
    for r in rows:
        out[part[r["speaker"]]].append(r)
    return out


class FeatureStats:
    """Running mean / variance over frames."""

    def __init__(self, rows):
        n, s, q = 0, 0.0, 0.0
        for r in rows:
            x = np.load(r["feat"]).astype(np.float64)
            n, s, q = n + len(x), s + x.sum(0), q + (x ** 2).sum(0)
        self.mean = s / n
        self.std = np.sqrt(np.maximum(q / n - self.mean ** 2, 1e-8))


class Utterances(Dataset):
    def __init__(self, rows, stats, classes):
        self.rows, self.stats = rows, stats
        self.c = {k: i for i, k in enumerate(classes)}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        x = (np.load(r["feat"]) - self.stats.mean) / self.stats.std
        return torch.from_numpy(x.astype(np.float32)), self.c[r["emotion"]]


def collate(batch):
    xs, ys = zip(*batch)
    lens = torch.tensor([len(x) for x in xs])
    return pad_sequence(xs, batch_first=True), lens, torch.tensor(ys)


class AttentivePool(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(d, d // 2), nn.Tanh(), nn.Linear(d // 2, 1))

    def forward(self, h, lens):
        w = self.score(h).squeeze(-1)
        pad = torch.arange(h.size(1), device=h.device)[None] >= lens[:, None]
        w = w.masked_fill(pad, float("-inf")).softmax(dim=1)
        return torch.einsum("bt,btd->bd", w, h)


class EmotionNet(nn.Module):
    def __init__(self, d_in, n_classes, h=128):
        super().__init__()
        self.rnn = nn.GRU(d_in, h, batch_first=True, bidirectional=True)
        self.pool, self.drop, self.fc = AttentivePool(2 * h), nn.Dropout(0.3), nn.Linear(2 * h, n_classes)

    def forward(self, x, lens):
        packed = pack_padded_sequence(x, lens.cpu(), batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.size(1))
        return self.fc(self.drop(self.pool(h, lens.to(h.device))))


@torch.inference_mode()
def unweighted_recall(net, loader, n, device):
    net.eval()
    hit, cnt = torch.zeros(n), torch.zeros(n)
    for x, lens, y in loader:
        p = net(x.to(device), lens).argmax(dim=-1).cpu()
        cnt += torch.bincount(y, minlength=n)
        hit += torch.bincount(y[p == y], minlength=n)
    return (hit / cnt.clamp(min=1)).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("manifest")
    ap.add_argument("--epochs", type=int, default=40)
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with open(args.manifest) as fh:
        rows = [json.loads(l) for l in fh]
    classes = sorted({r["emotion"] for r in rows})
    parts = split_by_speaker(rows, seed=0)
    stats = FeatureStats(parts["train"])
    dl = {k: DataLoader(Utterances(v, stats, classes), 32, shuffle=k == "train", collate_fn=collate)
          for k, v in parts.items()}
    freq = Counter(r["emotion"] for r in parts["train"])
    weight = torch.tensor([len(parts["train"]) / (len(classes) * max(1, freq[c])) for c in classes], device=device)
    net = EmotionNet(len(stats.mean), len(classes)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    best, best_state = -1.0, None
    for epoch in range(args.epochs):
        net.train()
        for x, lens, y in dl["train"]:
            loss = F.cross_entropy(net(x.to(device), lens), y.to(device), weight=weight)
            opt.zero_grad()
            loss.backward()
            opt.step()
        uar = unweighted_recall(net, dl["val"], len(classes), device)
        if uar > best:
            best, best_state = uar, {k: v.detach().clone() for k, v in net.state_dict().items()}
    net.load_state_dict(best_state)
    print(f"val {best:.4f} test {unweighted_recall(net, dl['test'], len(classes), device):.4f}")


if __name__ == "__main__":
    main()
