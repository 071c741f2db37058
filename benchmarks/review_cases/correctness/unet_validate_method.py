from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, cin=1, classes=2, base=32):
        super().__init__()
        self.d1, self.d2, self.d3 = double_conv(cin, base), double_conv(base, base * 2), double_conv(base * 2, base * 4)
        self.up2 = nn.ConvTranspose2d(base * 4, base * 2, 2, stride=2)
        self.u2 = double_conv(base * 4, base * 2)
        self.up1 = nn.ConvTranspose2d(base * 2, base, 2, stride=2)
        self.u1 = double_conv(base * 2, base)
        self.out = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        c1 = self.d1(x)
        c2 = self.d2(F.max_pool2d(c1, 2))
        c3 = self.d3(F.max_pool2d(c2, 2))
        x = self.u2(torch.cat([self.up2(c3), c2], dim=1))
        x = self.u1(torch.cat([self.up1(x), c1], dim=1))
        return self.out(x)


class SegmentationTrainer:
    def __init__(self, net, train_loader, val_loader, device="cuda"):
        self.net = net.to(device)
        self.train_loader, self.val_loader, self.device = train_loader, val_loader, device
        self.opt = torch.optim.AdamW(net.parameters(), 1e-3)
        self.best = float("inf")

    def run_epoch(self):
        self.net.train()
        for scan, mask in self.train_loader:
            scan, mask = scan.to(self.device), mask.to(self.device)
            self.opt.zero_grad(set_to_none=True)
            loss = F.cross_entropy(self.net(scan), mask)
            loss.backward()
            self.opt.step()

    def validate(self) -> float:
        total, batches = 0.0, 0
        for scan, mask in self.val_loader:  # expect: ESP302
            scan, mask = scan.to(self.device), mask.to(self.device)
            logits = self.net(scan)  # expect: ESP102
            loss = F.cross_entropy(logits, mask)
            total += loss.item()  # allow: ESP305
            batches += 1
        return total / max(batches, 1)

    def fit(self, epochs: int):
        for epoch in range(epochs):
            self.run_epoch()
            score = self.validate()
            if score < self.best:
                self.best = score
                torch.save(self.net.state_dict(), "best_unet.pt")
            print(f"[{epoch:03d}] val {score:.4f} best {self.best:.4f}")
