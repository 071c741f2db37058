"""Tabular model with branches built from a search space."""
import json
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Branch(nn.Module):
    def __init__(self, widths, act):
        super().__init__()
        self.order = []
        for i, (a, b) in enumerate(zip(widths[:-1], widths[1:])):
            lin = nn.Linear(a, b)
            self.add_module(f"lin{i}", lin)
            self.order.append(f"lin{i}")
        self.act = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}[act]

    def forward(self, x):
        for i, name in enumerate(self.order):
            x = getattr(self, name)(x)
            if i + 1 < len(self.order):
                x = self.act(x)
        return x


class MultiBranch(nn.Module):
    def __init__(self, d_in, specs, n_classes):
        super().__init__()
        branches = [Branch([d_in, *s["hidden"], n_classes], s["act"]) for s in specs]
        self.branches = nn.ModuleList(branches)
        self.mix = nn.ParameterList([nn.Parameter(torch.zeros(n_classes)) for _ in specs])

    def forward(self, x):
        outs = torch.stack([b(x) for b in self.branches], dim=0)
        gates = torch.stack(list(self.mix), dim=0).softmax(dim=0)
        return (outs * gates.unsqueeze(1)).sum(dim=0)


class Standardize(nn.Module):
    def __init__(self, x):
        super().__init__()
        std, mean = torch.std_mean(x, dim=0)
        self.register_buffer("mean", mean)
        self.register_buffer("std", std.clamp(min=1e-6))

    def forward(self, x):
        return (x - self.mean) / self.std


def sample_specs(rng):
    return [{"hidden": [rng.choice([64, 128, 256])] * rng.randint(1, 3), "act": rng.choice(["relu", "gelu", "silu"])}
            for _ in range(rng.randint(1, 4))]


def trial(specs, xt, yt, xv, yv, device, epochs=15):
    torch.manual_seed(0)
    n_classes = int(yt.max()) + 1
    net = nn.Sequential(Standardize(xt), MultiBranch(xt.size(1), specs, n_classes)).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-3)
    loader = DataLoader(TensorDataset(xt, yt), 512, shuffle=True)
    best, state = -1.0, None
    for _ in range(epochs):
        net.train()
        for x, y in loader:
            loss = F.cross_entropy(net(x.to(device)), y.to(device))
            for p in net.parameters():
                p.grad = None
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            pred = net(xv.to(device)).argmax(1).cpu()
        acc = (pred == yv).float().mean().item()
        if acc > best:
            best, state = acc, {k: v.cpu().clone() for k, v in net.state_dict().items()}
    return best, state


def main():
    z = np.load("covertype.npz")
    x, y = torch.from_numpy(z["x"]).float(), torch.from_numpy(z["y"]).long()
    perm = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    a, b = int(0.7 * len(x)), int(0.85 * len(x))
    tr, va, te = perm[:a], perm[a:b], perm[b:]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rng = random.Random(0)
    results = []
    for i in range(20):
        specs = sample_specs(rng)
        acc, state = trial(specs, x[tr], y[tr], x[va], y[va], device)
        results.append((acc, specs))
        if acc == max(r[0] for r in results):
            torch.save(state, "best_trial.pt")
        print(i, f"{acc:.4f}", json.dumps(specs))
    torch.save({"test_index": te, "leader": max(results, key=lambda r: r[0])[1]}, "search.pt")


if __name__ == "__main__":
    main()
