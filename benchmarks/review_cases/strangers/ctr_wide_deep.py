"""Click-through rate of adverts with a wide and a deep part."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from clicks import Clicks


class WideDeep(nn.Module):
    def __init__(self, fields, dim=16):
        super().__init__()
        self.wide = nn.ModuleList(nn.Embedding(n, 1) for n in fields)
        self.deep = nn.ModuleList(nn.Embedding(n, dim) for n in fields)
        self.mlp = nn.Sequential(nn.Linear(dim * len(fields), 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU())
        self.out = nn.Linear(400, 1)

    def forward(self, x):
        wide = torch.stack([e(x[:, i]) for i, e in enumerate(self.wide)]).sum(0)
        deep = torch.cat([e(x[:, i]) for i, e in enumerate(self.deep)], dim=1)
        return (wide + self.out(self.mlp(deep))).squeeze(1)


def main(path, fields, epochs=3):
    device = torch.device("cuda")
    net = torch.compile(WideDeep(fields).to(device))
    loader = DataLoader(Clicks(path), batch_size=4096, shuffle=True)  # expect: ESP406, ESP413
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(epochs):
        net.train()
        for fields_batch, clicked in loader:
            fields_batch, clicked = fields_batch.to(device), clicked.to(device).float()
            loss = F.binary_cross_entropy_with_logits(net(fields_batch), clicked)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: last loss {loss.item():.4f}")


if __name__ == "__main__":
    main("criteo.parquet", [1461, 583, 305, 24, 633])
