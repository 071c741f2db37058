import argparse
import copy

import numpy as np
import torch
import torch.nn as nn

from windows import WindowSpec, build


class PatchMLP(nn.Module):
    def __init__(self, n_feat, spec, patch=24, d=128):
        super().__init__()
        self.patch = patch
        self.n = spec.context // patch
        self.embed = nn.Linear(patch * n_feat, d)
        self.mix = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * d, d))
        self.head = nn.Linear(self.n * d, spec.horizon)

    def forward(self, x):
        b, t, f = x.shape
        h = self.embed(x.reshape(b, self.n, self.patch * f))
        h = h + self.mix(h)
        return self.head(h.flatten(1))


@torch.no_grad()
def mae(model, loader, scaler, col, device):
    model.eval()
    err, n = 0.0, 0
    for x, y in loader:
        pred = model(x.to(device)).cpu().numpy()
        diff = scaler.inverse(pred, col) - scaler.inverse(y.numpy(), col)
        err += float(np.abs(diff).sum())
        n += diff.size
    return err / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--npz", required=True)
    ap.add_argument("--col", type=int, default=1)
    ap.add_argument("--epochs", type=int, default=20)
    args = ap.parse_args()
    torch.manual_seed(5)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    spec = WindowSpec()
    raw = np.load(args.npz)["values"]
    loaders, scaler = build(raw, spec, args.col, 256)
    model = PatchMLP(raw.shape[1], spec).to(device)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    best, best_state = float("inf"), None
    for epoch in range(args.epochs):
        model.train()
        for x, y in loaders["train"]:
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        v = mae(model, loaders["val"], scaler, args.col, device)
        if v < best:
            best = v
            best_state = copy.deepcopy(model.state_dict())
        print(epoch, f"val mae {v:.3f}")
    model.load_state_dict(best_state)
    print("test", mae(model, loaders["test"], scaler, args.col, device))


if __name__ == "__main__":
    main()
