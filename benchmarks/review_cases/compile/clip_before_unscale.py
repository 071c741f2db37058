"""Speech enhancement in mixed precision."""
import torch
import torch.nn as nn


class MaskNet(nn.Module):
    def __init__(self, bins=257, hidden=400):
        super().__init__()
        self.rnn = nn.GRU(bins, hidden, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, bins)

    def forward(self, mag):
        h, _ = self.rnn(mag)
        return torch.sigmoid(self.out(h))


class Enhancer:
    def __init__(self, lr=3e-4, clip=5.0, device="cuda"):
        self.net = MaskNet().to(device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr)
        self.scaler = torch.amp.GradScaler(device)
        self.clip, self.device = clip, device

    def step(self, noisy, clean):
        noisy, clean = noisy.to(self.device), clean.to(self.device)
        with torch.autocast("cuda", dtype=torch.float16):
            est = self.net(noisy) * noisy
            loss = nn.functional.l1_loss(est, clean)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)  # expect: ESP503
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach()

    def fit(self, loader, epochs):
        self.net.train()
        for _ in range(epochs):
            for noisy, clean in loader:
                self.step(noisy, clean)
