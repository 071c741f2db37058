import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Expert(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.w1 = nn.Linear(d, hidden)
        self.w2 = nn.Linear(hidden, d)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


class MoELayer(nn.Module):
    """Dense mixture: every expert sees every token, gates weight the outputs."""

    def __init__(self, d, hidden, n_experts, top_k=2):
        super().__init__()
        self.router = nn.Linear(d, n_experts, bias=False)
        self.experts = [Expert(d, hidden) for _ in range(n_experts)]
        self.top_k = top_k
        self.norm = nn.LayerNorm(d)

    def gates(self, x):
        scores = self.router(x)
        top, idx = scores.topk(self.top_k, dim=-1)
        sparse = torch.full_like(scores, float("-inf")).scatter(-1, idx, top)
        return sparse.softmax(dim=1)

    def forward(self, x):
        h = self.norm(x)
        g = self.gates(h)
        out = torch.stack([e(h) for e in self.experts], dim=-2)
        return x + (g.unsqueeze(-1) * out).sum(dim=-2)


class Forecaster(nn.Module):
    def __init__(self, n_feat, horizon, d=96, layers=3, n_experts=6):
        super().__init__()
        self.inp = nn.Linear(n_feat, d)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.layers = nn.ModuleList([MoELayer(d, 2 * d, n_experts) for _ in range(layers)])
        self.head = nn.Linear(d, horizon)

    def forward(self, x):
        h, _ = self.gru(self.inp(x))
        for layer in self.layers:
            h = layer(h)
        return self.head(h[:, -1])


def load_split(path):
    blob = torch.load(path, map_location="cpu", weights_only=True)
    return TensorDataset(blob["x"].float(), blob["y"].float())


def evaluate(model, loader):
    model.eval()
    se = n = 0.0
    with torch.no_grad():
        for x, y in loader:
            se += F.mse_loss(model(x), y, reduction="sum").item()
            n += y.numel()
    return (se / n) ** 0.5


def main(train_path="train.pt", valid_path="valid.pt", epochs=30):
    torch.manual_seed(99)
    train, valid = load_split(train_path), load_split(valid_path)
    x0, y0 = train[0]
    model = Forecaster(x0.size(-1), y0.size(-1))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    tl = DataLoader(train, 128, shuffle=True)
    vl = DataLoader(valid, 512)
    for epoch in range(epochs):
        model.train()
        for x, y in tl:
            loss = F.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, f"rmse {evaluate(model, vl):.4f}")
    torch.save(model.state_dict(), "moe.pt")


if __name__ == "__main__":
    main()
