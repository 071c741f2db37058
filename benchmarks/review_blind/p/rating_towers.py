"""Two-tower rating regression with side features."""
import logging

import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split

logger = logging.getLogger(__name__)


class Ratings(Dataset):
    def __init__(self, csv):
        df = pd.read_csv(csv)
        self.user = torch.as_tensor(df["user_id"].values, dtype=torch.long)
        self.item = torch.as_tensor(df["item_id"].values, dtype=torch.long)
        self.rating = torch.as_tensor(df["rating"].values, dtype=torch.float32)

    @property
    def sizes(self):
        return int(self.user.max()) + 1, int(self.item.max()) + 1

    def __len__(self):
        return len(self.rating)

    def __getitem__(self, i):
        return self.user[i], self.item[i], self.rating[i]


class Tower(nn.Module):
    def __init__(self, n, d, hidden):
        super().__init__()
        self.emb = nn.Embedding(n, d)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.mlp = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, d))

    def forward(self, ids):
        e = self.emb(ids)
        return e + self.mlp(e)


class TwoTower(nn.Module):
    def __init__(self, n_users, n_items, d=64, hidden=128):
        super().__init__()
        self.user = Tower(n_users, d, hidden)
        self.item = Tower(n_items, d, hidden)
        self.final = nn.Linear(3 * d, 1)

    def forward(self, u, i):
        eu, ei = self.user(u), self.item(i)
        return self.final(torch.cat([eu, ei, eu * ei], dim=-1))


def run_epoch(model, loader, opt, device):
    train = opt is not None
    model.train(train)
    crit = nn.MSELoss()
    tot, n = 0.0, 0
    with torch.set_grad_enabled(train):
        for u, i, r in loader:
            u, i, r = u.to(device), i.to(device), r.to(device)
            pred = model(u, i)
            loss = crit(pred, r)
            if train:
                opt.zero_grad()
                loss.backward()
                opt.step()
            tot += loss.item() * r.size(0)
            n += r.size(0)
    return (tot / n) ** 0.5


def main():
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(17)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ds = Ratings("ratings.csv")
    n_val = len(ds) // 10
    tr, va = random_split(ds, [len(ds) - n_val, n_val], generator=torch.Generator().manual_seed(17))
    tl = DataLoader(tr, 4096, shuffle=True, num_workers=4)
    vl = DataLoader(va, 8192, num_workers=4)
    model = TwoTower(*ds.sizes).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-5)
    best = float("inf")
    for ep in range(20):
        rt = run_epoch(model, tl, opt, device)
        rv = run_epoch(model, vl, None, device)
        logger.info("epoch %d rmse train %.4f val %.4f", ep, rt, rv)
        if rv < best:
            best = rv
            torch.save(model.state_dict(), "two_tower.pt")


if __name__ == "__main__":
    main()
