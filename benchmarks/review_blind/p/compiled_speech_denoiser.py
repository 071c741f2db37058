"""Waveform denoiser with a compiled training forward."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from noisy_speech import PairedClips


class GatedConv(nn.Module):
    def __init__(self, c, k, dilation):
        super().__init__()
        pad = (k - 1) * dilation // 2
        self.conv = nn.Conv1d(c, 2 * c, k, dilation=dilation, padding=pad)
        self.norm = nn.GroupNorm(1, c)

    def forward(self, x):
        a, b = self.conv(self.norm(x)).chunk(2, dim=1)
        return x + a.tanh() * b.sigmoid()


class Denoiser(nn.Module):
    def __init__(self, c=64, layers=10):
        super().__init__()
        self.inp = nn.Conv1d(1, c, 16, stride=8, padding=4)
        self.blocks = nn.ModuleList(GatedConv(c, 3, 2 ** (i % 5)) for i in range(layers))
        self.out = nn.ConvTranspose1d(c, 1, 16, stride=8, padding=4)

    def forward(self, wav):
        peak = wav.abs().amax(dim=-1, keepdim=True)
        if peak.max().item() > 1.0:
            wav = wav / peak.clamp(min=1e-5)
        h = self.inp(wav)
        for blk in self.blocks:
            h = blk(h)
        return self.out(h)


def si_sdr(est, ref, eps=1e-8):
    ref = ref - ref.mean(dim=-1, keepdim=True)
    est = est - est.mean(dim=-1, keepdim=True)
    alpha = (est * ref).sum(-1, keepdim=True) / (ref.pow(2).sum(-1, keepdim=True) + eps)
    target = alpha * ref
    noise = est - target
    ratio = target.pow(2).sum(-1) / (noise.pow(2).sum(-1) + eps)
    return 10 * torch.log10(ratio + eps)


class Meter:
    def __init__(self):
        self.sum, self.n = 0.0, 0

    def add(self, value):
        self.sum += value.item()
        self.n += 1

    @property
    def mean(self):
        return self.sum / max(1, self.n)


def train(model, loader, opt, epochs, device):
    compiled = torch.compile(model, mode="reduce-overhead")
    for epoch in range(epochs):
        compiled.train()
        meter, sdr = Meter(), Meter()
        t0 = time.perf_counter()
        for noisy, clean in loader:
            noisy = noisy.to(device, non_blocking=True)
            clean = clean.to(device, non_blocking=True)
            est = compiled(noisy)
            loss = F.l1_loss(est, clean) - 0.01 * si_sdr(est, clean).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            meter.add(loss.detach())
            sdr.add(si_sdr(est.detach(), clean).mean())
        print(f"{epoch} loss {meter.mean:.4f} sdr {sdr.mean:.2f} {time.perf_counter() - t0:.1f}s")


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda")
    ds = PairedClips("vctk_demand", seconds=2.0, sample_rate=16000)
    loader = DataLoader(ds, 32, shuffle=True, num_workers=8, pin_memory=True,
                        drop_last=True, persistent_workers=True)
    model = Denoiser().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    train(model, loader, opt, 50, device)
    torch.save(model.state_dict(), "denoiser.pt")


if __name__ == "__main__":
    main()
