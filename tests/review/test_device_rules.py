"""ESP104 on tensors that stay on the CPU, in the ways people make, keep, hand over and index them."""

from __future__ import annotations

import pytest

HEAD = """
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
"""

FOUND = {
    "hidden if None": """
class R(nn.Module):
    def __init__(self):
        super().__init__(); self.gru = nn.GRU(8, 8)
    def forward(self, x, hidden=None):
        if hidden is None:
            hidden = torch.zeros(1, x.size(1), 8)
        out, hidden = self.gru(x, hidden)
        return out
R().to("cuda")
""",
    "rnn cell loop": """
class R(nn.Module):
    def __init__(self, n):
        super().__init__(); self.cell = nn.GRUCell(n, n); self.n = n
    def forward(self, seq):
        h = torch.zeros(seq.size(0), self.n)
        outs = []
        for t in range(seq.size(1)):
            h = self.cell(seq[:, t], h)
            outs.append(h)
        return torch.stack(outs, 1)
net = R(3).cuda()
""",
    "init_hidden helper": """
class R(nn.Module):
    def __init__(self, n):
        super().__init__(); self.lstm = nn.LSTM(n, n); self.n = n
    def init_hidden(self, bsz):
        return (torch.zeros(1, bsz, self.n), torch.zeros(1, bsz, self.n))
    def forward(self, x):
        h = self.init_hidden(x.size(1))
        out, _ = self.lstm(x, h)
        return out
net = R(3).cuda()
""",
    "lookup by device index": """
class D(nn.Module):
    def __init__(self, T):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        betas = torch.linspace(1e-4, 0.02, T)
        self.alpha_bar = torch.cumprod(1 - betas, 0)
    def forward(self, x, t):
        a = self.alpha_bar[t.long()]
        return self.net(x) * a[:, None]
D(3).to("cuda")
""",
    "ddpm class trainer": """
class Diffusion:
    def __init__(self, steps, device):
        self.device = device
        self.betas = torch.linspace(1e-4, 0.02, steps)
        self.alpha_hat = torch.cumprod(1.0 - self.betas, dim=0)
    def noise(self, x, t):
        x = x.to(self.device)
        eps = torch.randn_like(x)
        return self.alpha_hat[t][:, None] * x + eps
model = nn.Linear(2, 2).to("cuda")
""",
    "sequential out plus noise": """
class A(nn.Module):
    def __init__(self):
        super().__init__(); self.enc = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    def forward(self, inp):
        z = self.enc(inp)
        return z + torch.randn(z.shape) * 0.1
A().to("cuda")
""",
    "lengths mask": """
class A(nn.Module):
    def __init__(self):
        super().__init__(); self.enc = nn.Linear(3, 3)
    def forward(self, x, lengths):
        mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
        s = self.enc(x).squeeze(-1)
        return s.masked_fill(~mask, -1e9).softmax(-1)
A().to("cuda")
""",
    "training loop labels from torch.full (gan)": """
def train(netD, netG, loader, device):
    netD = netD.to(device); netG = netG.to(device)
    crit = nn.BCELoss()
    for i, (real, _) in enumerate(loader):
        real = real.to(device)
        b = real.size(0)
        label = torch.full((b,), 1.0)
        out = netD(real).view(-1)
        err = crit(out, label)
        err.backward()
""",
    "gan noise": """
device = torch.device("cuda")
netG = nn.Linear(100, 3).to(device)
for epoch in range(3):
    z = torch.randn(64, 100)
    fake = netG(z)
""",
    "class weights loss": """
def main(device="cuda"):
    w = torch.tensor([0.1, 0.9])
    model = nn.Linear(3, 2).to(device)
    criterion = nn.CrossEntropyLoss(weight=w)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = criterion(model(x), y)
        loss.backward()
""",
    "val loop target host": """
def evaluate(model, val_loader, device):
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, targets in val_loader:
            images = images.to(device)
            pred = model(images).argmax(1)
            correct += (pred == targets).sum().item()
    return correct
def main():
    model = nn.Linear(3, 3).to("cuda")
    evaluate(model, load(), "cuda")
""",
    "one_hot scatter": """
def step(model, x, y):
    x, y = x.cuda(), y.cuda()
    onehot = torch.zeros(y.size(0), 10)
    onehot.scatter_(1, y.unsqueeze(1), 1.0)
    return F.mse_loss(model(x), onehot)
""",
    "dqn batch": """
device = "cuda" if torch.cuda.is_available() else "cpu"
def optimize(policy_net, target_net, batch):
    state = torch.cat(batch.state).to(device)
    reward = torch.cat(batch.reward).to(device)
    nxt = torch.zeros(128)
    q = policy_net(state).gather(1, torch.tensor([0, 1]).unsqueeze(1).to(device))
    expected = nxt * 0.99 + reward
    return F.smooth_l1_loss(q, expected)
""",
    "lightning step": """
import pytorch_lightning as pl
class M(pl.LightningModule):
    def training_step(self, batch, batch_idx):
        x, y = batch
        noise = torch.randn(x.shape)
        loss = F.mse_loss(self(x + noise), y)
        return loss
trainer = pl.Trainer(accelerator="gpu", devices=1)
""",
    "helper module level pe": """
def sinusoid(n, d):
    pe = torch.zeros(n, d)
    pos = torch.arange(n).unsqueeze(1)
    pe[:, 0::2] = torch.sin(pos.float())
    return pe
class E(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 8)
        self.pe = sinusoid(512, 8)
    def forward(self, tok):
        return self.emb(tok) + self.pe[: tok.size(1)]
E().to("cuda")
""",
}
CLEAN = {
    "collate": """
def collate(batch):
    xs = [torch.tensor(b) for b in batch]
    lens = torch.tensor([len(x) for x in xs])
    return torch.nn.utils.rnn.pad_sequence(xs), lens
model = nn.Linear(2,2).to("cuda")
""",
    "noise transform": """
class AddNoise:
    def __call__(self, tensor):
        return tensor + torch.randn(tensor.size()) * 0.1
model = nn.Linear(2,2).to("cuda")
""",
    "pack": """
class R(nn.Module):
    def __init__(self):
        super().__init__(); self.lstm = nn.LSTM(8, 8)
    def forward(self, x, lengths):
        p = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
        return self.lstm(p)
R().to("cuda")
""",
    "gather preds on host": """
def predict(model, loader, device):
    model = model.to(device)
    out = torch.zeros(1000, 3)
    i = 0
    for x in loader:
        p = model(x.to(device)).cpu()
        out[i:i + len(p)] = p
        i += len(p)
    return out
""",
    "device of first param": """
class E(nn.Module):
    def __init__(self):
        super().__init__(); self.emb = nn.Embedding(10, 8)
    def forward(self, tok):
        dev = next(self.parameters()).device
        pos = torch.arange(tok.size(1), device=dev)
        return self.emb(tok) + self.emb(pos)
E().to("cuda")
""",
    "buffer persisted in helper": """
class E(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        m = torch.tril(torch.ones(3, 3))
        for n in ("mask",):
            self.register_buffer("mask", m, persistent=False)
    def forward(self, x):
        return self.lin(x) * self.mask
E().to("cuda")
""",
}


@pytest.mark.parametrize("source", FOUND.values(), ids=FOUND)
def test_a_tensor_that_stays_on_the_cpu_is_found(found, source):
    assert found("ESP104", HEAD + source)


@pytest.mark.parametrize("source", CLEAN.values(), ids=CLEAN)
def test_a_tensor_that_goes_along_or_never_leaves_the_cpu_is_left_alone(found, source):
    assert found("ESP104", HEAD + source) == []
