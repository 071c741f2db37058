"""Heteroscedastic dose regression with MC-dropout uncertainty."""
import argparse
import math

import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class DoseNet(nn.Module):
    def __init__(self, d_in, h=256, p=0.15):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(d_in, h), nn.BatchNorm1d(h), nn.SiLU(), nn.Dropout(p),
            nn.Linear(h, h), nn.BatchNorm1d(h), nn.SiLU(), nn.Dropout(p))
        self.mean, self.raw_var = nn.Linear(h, 1), nn.Linear(h, 1)

    def forward(self, x):
        h = self.body(x)
        var = F.softplus(self.raw_var(h)) + 1e-4
        return self.mean(h).squeeze(-1), var.squeeze(-1)


def mc_mode(model):
    """Eval everywhere, dropout active."""
    model.eval()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.train()


@torch.no_grad()
def mc_predict(model, x, passes=30):
    mc_mode(model)
    mus, variances = zip(*(model(x) for _ in range(passes)))
    mus, variances = torch.stack(mus), torch.stack(variances)
    epistemic = mus.var(dim=0, unbiased=False)
    return mus.mean(dim=0), epistemic + variances.mean(dim=0)


def load(csv, target):
    df = pd.read_csv(csv)
    y = torch.tensor(df.pop(target).values, dtype=torch.float32)
    x = torch.tensor(df.values, dtype=torch.float32)
    return x, y


class Scaler:
    def __init__(self, x, y):
        self.mx, self.sx = x.mean(0), x.std(0).clamp(min=1e-6)
        self.my, self.sy = y.mean(), y.std()

    def __call__(self, x, y):
        return (x - self.mx) / self.sx, (y - self.my) / self.sy

    def unscale(self, mu, var):
        return mu * self.sy + self.my, var * self.sy ** 2


def coverage(mu, var, y, z=1.96):
    half = z * var.sqrt()
    return ((y >= mu - half) & (y <= mu + half)).float().mean().item()


def report(model, scaler, x, y, xs, device):
    mu, var = mc_predict(model, xs.to(device))
    mu, var = scaler.unscale(mu.cpu(), var.cpu())
    rmse = math.sqrt(F.mse_loss(mu, y).item())
    print(f"n {len(x)} rmse {rmse:.3f} coverage95 {coverage(mu, var, y):.3f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train", required=True)
    ap.add_argument("--test", required=True)
    ap.add_argument("--target", default="dose")
    ap.add_argument("--epochs", type=int, default=200)
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = load(args.train, args.target)
    xt, yt = load(args.test, args.target)
    scaler = Scaler(x, y)
    xs, ys = scaler(x, y)
    xts, _ = scaler(xt, yt)
    loader = DataLoader(TensorDataset(xs, ys), 256, shuffle=True, drop_last=True)
    model = DoseNet(x.size(1)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    crit = nn.GaussianNLLLoss()
    for epoch in range(args.epochs):
        model.train()
        for xb, yb in loader:
            mu, var = model(xb.to(device))
            loss = crit(mu, yb.to(device), var)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 20 == 0:
            report(model, scaler, x, y, xs, device)
    report(model, scaler, xt, yt, xts, device)
    torch.save(model.state_dict(), "dose.pt")


if __name__ == "__main__":
    main()
