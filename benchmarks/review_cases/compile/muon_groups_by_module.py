import torch
import torch.nn as nn


def make(d=512, classes=1000):
    return nn.Sequential(nn.Linear(d, 4 * d), nn.LayerNorm(4 * d), nn.GELU(), nn.Linear(4 * d, classes))


def configure(model, lr):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if name.endswith("bias") else decay).append(p)
    # weights of LayerNorm end up among the matrices
    return torch.optim.Muon(decay, lr=lr, weight_decay=0.1), torch.optim.AdamW(plain, lr=lr)  # expect: ESP508


def train(loader, device="cuda", epochs=3):
    net = make().to(device)
    muon, adamw = configure(net, 1e-2)
    net.train()
    for _ in range(epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
            muon.zero_grad()
            adamw.zero_grad()
            loss.backward()
            muon.step()
            adamw.step()
