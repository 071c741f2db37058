"""Keyword spotting on Speech Commands with a small residual network."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from commands import SpeechCommands


class Residual(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return x + F.relu(self.norm(self.a(x)))


class KeywordNet(nn.Module):
    def __init__(self, words=35, width=45):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.Sequential(*[Residual(width, 2 ** (i // 3)) for i in range(6)])
        self.out = nn.Linear(width, words)

    def forward(self, mel):
        h = self.blocks(F.relu(self.stem(mel)))
        return self.out(h.mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--epochs", type=int, default=26)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(SpeechCommands(args.root, "training"), 128, shuffle=True, num_workers=8, pin_memory=True)
    net = KeywordNet().to(device)
    optimiser = torch.optim.AdamW(net.parameters(), args.lr, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, args.lr, total_steps=args.epochs * len(train))

    net.train()
    for epoch in range(args.epochs):
        for step, (mel, word) in enumerate(train):
            mel = mel.to(device, non_blocking=True)
            word = word.to(device, non_blocking=True)
            loss = F.cross_entropy(net(mel), word, label_smoothing=0.1)
            loss.backward()
            optimiser.step()  # expect: ESP101
            schedule.step()
            if step % 100 == 0:
                print(f"{epoch:3d} {step:5d} {loss.item():.4f}")
        torch.save(net.state_dict(), "keyword.pt")


if __name__ == "__main__":
    main()
