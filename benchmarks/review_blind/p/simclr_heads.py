"""SimCLR on tabular sensor embeddings."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class SensorEncoder(nn.Module):
    def __init__(self, d_in, d=256, out=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(d_in, d), nn.BatchNorm1d(d), nn.ReLU(),
            nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU())
        self.proj = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, out))

    def forward(self, x):
        return self.proj(self.body(x))


class NTXent(nn.Module):
    """Normalized temperature-scaled cross entropy."""

    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature

    def forward(self, za, zb):
        n = za.size(0)
        z = torch.cat([za, zb], dim=0)
        z = F.normalize(z, dim=0)
        sim = z @ z.t() / self.temperature
        eye = torch.eye(2 * n, dtype=torch.bool, device=z.device)
        sim = sim.masked_fill(eye, float("-inf"))
        pos = torch.arange(2 * n, device=z.device)
        pos = (pos + n) % (2 * n)
        return F.cross_entropy(sim, pos)


class Augment:
    def __init__(self, noise=0.1, drop=0.2):
        self.noise, self.drop = noise, drop

    def __call__(self, x):
        x = x + self.noise * torch.randn_like(x)
        keep = torch.rand_like(x) >= self.drop
        return x * keep


@torch.no_grad()
def knn_accuracy(enc, xs, ys, k=10):
    enc.eval()
    n = len(xs) // 2
    h = F.normalize(enc.body(xs), dim=1)
    sim = h[n:] @ h[:n].t()
    idx = sim.topk(k, dim=1).indices
    vote = ys[:n][idx].mode(dim=1).values
    return (vote == ys[n:]).float().mean().item()


def main():
    torch.manual_seed(2)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    blob = np.load("sensors.npz")
    x = torch.from_numpy(blob["x"]).float()
    probe_x = torch.from_numpy(blob["probe_x"]).float().to(dev)
    probe_y = torch.from_numpy(blob["probe_y"]).long().to(dev)
    loader = DataLoader(TensorDataset(x), batch_size=512, shuffle=True, drop_last=True)
    enc = SensorEncoder(x.size(1)).to(dev)
    aug, crit = Augment(), NTXent()
    opt = torch.optim.AdamW(enc.parameters(), lr=1e-3, weight_decay=1e-4)
    for epoch in range(50):
        enc.train()
        total = torch.zeros((), device=dev)
        for (xb,) in loader:
            xb = xb.to(dev)
            loss = crit(enc(aug(xb)), enc(aug(xb)))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
        acc = knn_accuracy(enc, probe_x, probe_y)
        print(f"{epoch} loss {total.item() / len(loader):.4f} knn {acc:.4f}")


if __name__ == "__main__":
    main()
