import argparse

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser("Card fraud, one network a fold")
parser.add_argument("--features", default="features.npy")
parser.add_argument("--flags", default="flags.npy")
parser.add_argument("--folds", type=int, default=5)
parser.add_argument("--epochs", type=int, default=12)


class FraudNet(nn.Module):
    def __init__(self, n_in, width=256, dropout=0.2):
        super().__init__()
        self.norm = nn.BatchNorm1d(n_in)
        self.l1 = nn.Linear(n_in, width)
        self.l2 = nn.Linear(width, width // 2)
        self.score = nn.Linear(width // 2, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm(x)
        x = self.dropout(F.silu(self.l1(x)))
        x = self.dropout(F.silu(self.l2(x)))
        return self.score(x)


def run_fold(train_x, train_y, valid_x, valid_y, epochs):
    net = FraudNet(train_x.shape[1])
    rate = float(train_y.mean())
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([(1 - rate) / max(rate, 1e-6)]))
    opt = optim.AdamW(net.parameters(), lr=3e-4)
    train = TensorDataset(
        torch.tensor(train_x, dtype=torch.float32),
        torch.tensor(train_y, dtype=torch.float32),
    )
    for epoch in range(epochs):
        net.train()
        for features, flags in DataLoader(train, batch_size=2048, shuffle=True):
            opt.zero_grad()
            out = net(features)
            loss = criterion(out, flags)  # expect: ESP105
            loss.backward()
            opt.step()
    net.eval()
    with torch.no_grad():
        scores = net(torch.tensor(valid_x, dtype=torch.float32)).squeeze(1)
    caught = ((scores > 0) & torch.tensor(valid_y).bool()).sum()
    return caught.item() / max(int(valid_y.sum()), 1)


if __name__ == "__main__":
    args = parser.parse_args()
    x, y = np.load(args.features), np.load(args.flags)
    chunks = np.array_split(np.random.default_rng(0).permutation(len(x)), args.folds)
    for k, held in enumerate(chunks):
        rest = np.concatenate([c for j, c in enumerate(chunks) if j != k])
        print(k, run_fold(x[rest], y[rest], x[held], y[held], args.epochs))
