"""Train a MixNet-like audio tagger end to end; several things to look at."""
import argparse
import json
import logging
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchaudio
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("tagger")


class Tracks(Dataset):
    def __init__(self, index, rate=22050, seconds=10, augment=False):
        self.rows = json.loads(Path(index).read_text())
        self.mel = torchaudio.transforms.MelSpectrogram(rate, n_mels=96)
        self.n, self.augment = rate * seconds, augment

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        wav, _ = torchaudio.load(row["path"])
        wav = F.pad(wav.mean(0), (0, max(0, self.n - wav.size(-1))))[: self.n]
        if self.augment:
            wav = wav * np.random.uniform(0.7, 1.3)
        mel = torch.log(self.mel(wav) + 1e-6)
        return mel, torch.tensor(row["tags"], dtype=torch.float32)


class SE(nn.Module):
    def __init__(self, c, r=8):
        super().__init__()
        self.a, self.b = nn.Linear(c, c // r), nn.Linear(c // r, c)

    def forward(self, x):
        s = torch.sigmoid(self.b(F.relu(self.a(x.mean((2, 3))))))
        return x * s[:, :, None, None]


class Tagger(nn.Module):
    def __init__(self, tags, widths=(32, 64, 128)):
        super().__init__()
        layers, cin = [], 1
        for w in widths:
            layers += [nn.Conv2d(cin, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(), SE(w), nn.MaxPool2d(2)]
            cin = w
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(cin, tags), nn.Sigmoid())

    def forward(self, mel):
        return self.head(self.body(mel.unsqueeze(1)).mean((2, 3)))


def average_precision(score, target):
    order = score.argsort(descending=True)
    hits = target[order]
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1)
    return (precision * hits).sum() / hits.sum().clamp(min=1)


def validate(model, loader, device):
    model.eval()
    scores, targets = [], []
    for mel, y in loader:
        scores.append(model(mel.to(device)))  # expect: ESP302
        targets.append(y)
    scores, targets = torch.cat(scores).detach().cpu(), torch.cat(targets)
    return torch.stack([average_precision(scores[:, t], targets[:, t]) for t in range(targets.size(1))]).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train", required=True)
    ap.add_argument("--valid", required=True)
    ap.add_argument("--tags", type=int, default=50)
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(Tracks(args.train, augment=True), 32, shuffle=True, num_workers=8, pin_memory=True, drop_last=True)
    valid = DataLoader(Tracks(args.valid), 64, num_workers=8, pin_memory=True)
    model = Tagger(args.tags).to(device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)
    model.train()
    for epoch in range(args.epochs):  # expect: ESP103
        total = 0.0
        for step, (mel, y) in enumerate(train):
            mel, y = mel.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = criterion(model(mel), y)  # expect: ESP201
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss  # expect: ESP301
            if step % 100 == 0:
                log.info("%d/%d %.4f", epoch, step, loss.item())
        score = validate(model, valid, device)
        log.info("epoch %d loss %.4f map %.4f", epoch, float(total) / len(train), score)
        torch.save(model.state_dict(), "tagger.pt")


if __name__ == "__main__":
    main()
