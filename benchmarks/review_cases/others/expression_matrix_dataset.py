import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SingleCells(Dataset):
    def __init__(self, path, donors):
        loaded = np.load(path)
        self.counts = loaded["counts"].astype("float32")
        self.kinds = loaded["kinds"].astype("int64")
        self.keep = np.flatnonzero(np.isin(loaded["donor"], donors))

    def __len__(self):
        return len(self.keep)

    def __getitem__(self, n):
        row = self.keep[n]
        genes = torch.as_tensor(self.counts[row])
        genes.div_(genes.sum() + 1e-6).mul_(1e4)
        genes.log1p_()  # expect: ESP207
        return genes, self.kinds[row]


class CellNet(nn.Module):
    def __init__(self, genes, kinds):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(genes, 512), nn.LayerNorm(512), nn.GELU(), nn.Linear(512, kinds))

    def forward(self, x):
        return self.layers(x)


def train(path, donors, epochs=20):
    cells = SingleCells(path, donors)
    net = CellNet(cells.counts.shape[1], int(cells.kinds.max()) + 1)
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for _ in range(epochs):
        for genes, kinds in DataLoader(cells, 512, shuffle=True):
            loss = nn.functional.cross_entropy(net(genes), kinds)
            opt.zero_grad()
            loss.backward()
            opt.step()
    return net
