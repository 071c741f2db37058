"""Environmental sound classification on log-mel spectrograms."""
import csv
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchaudio
from torch.utils.data import DataLoader, Dataset

SR, SECONDS = 16000, 4


class Clips(Dataset):
    def __init__(self, root, folds):
        self.root = Path(root)
        with open(self.root / "meta.csv") as fh:
            self.rows = [r for r in csv.DictReader(fh) if int(r["fold"]) in folds]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        wav, sr = torchaudio.load(str(self.root / row["file"]))
        wav = wav.mean(dim=0)
        if sr != SR:
            wav = torchaudio.functional.resample(wav, sr, SR)
        n = SR * SECONDS
        wav = F.pad(wav, (0, max(0, n - wav.numel())))[:n]
        return wav, int(row["class"])


class ChannelGate(nn.Module):
    def __init__(self, c, r=8):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(c, c // r), nn.Linear(c // r, c)

    def forward(self, x):
        s = x.mean(dim=(2, 3))
        g = torch.sigmoid(self.fc2(F.relu(self.fc1(s))))
        g.mul_(2.0)
        return x * g[:, :, None, None]


class AudioCNN(nn.Module):
    def __init__(self, n_classes=10):
        super().__init__()
        self.mel = torchaudio.transforms.MelSpectrogram(SR, 1024, hop_length=320, n_mels=64)
        layers, cin = [], 1
        for c in (32, 64, 128):
            layers += [nn.Conv2d(cin, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
                       ChannelGate(c), nn.MaxPool2d(2)]
            cin = c
        self.net = nn.Sequential(*layers)
        self.fc = nn.Linear(cin, n_classes)

    def forward(self, wav):
        with torch.no_grad():
            m = torch.log(self.mel(wav) + 1e-5).unsqueeze(1)
        return self.fc(self.net(m).mean(dim=(2, 3)))


class History:
    def __init__(self):
        self.values = defaultdict(list)

    def log(self, **kw):
        for k, v in kw.items():
            self.values[k].append(v)

    def mean_tail(self, key, n):
        tail = self.values[key][-n:]
        return sum(float(v) for v in tail) / len(tail)


def fit(root, epochs=60, device="cuda"):
    train = DataLoader(Clips(root, range(1, 9)), 48, shuffle=True, num_workers=8, drop_last=True)
    valid = DataLoader(Clips(root, [9]), 96, num_workers=4)
    net = AudioCNN().to(device)
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    hist = History()
    for epoch in range(epochs):
        net.train()
        for wav, y in train:
            loss = F.cross_entropy(net(wav.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            hist.log(train_loss=loss)
        net.eval()
        hit = n = 0
        with torch.no_grad():
            for wav, y in valid:
                hit += (net(wav.to(device)).argmax(1).cpu() == y).sum().item()
                n += len(y)
        hist.log(val_acc=hit / n)
        print(epoch, hist.mean_tail("train_loss", len(train)), hit / n)
    return net, hist


if __name__ == "__main__":
    torch.manual_seed(4)
    model, _ = fit("UrbanSound8K")
    torch.save(model.state_dict(), "urban.pt")
