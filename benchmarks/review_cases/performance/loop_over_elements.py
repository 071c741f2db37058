import torch
import torch.nn as nn


class SparseTopK(nn.Module):
    """Keeps the k largest activations of each row."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        out = torch.zeros_like(x)
        idx = x.topk(self.k, dim=1).indices
        for i in range(x.size(0)):
            for j in range(self.k):
                out[i, idx[i, j]] = x[i, idx[i, j]]  # expect: ESP409
        return out


def label_smoothing(targets, classes, eps=0.1):
    soft = torch.full((len(targets), classes), eps / (classes - 1), device=targets.device)
    for i, t in enumerate(targets):
        soft[i, t] = 1 - eps  # expect: ESP409
    return soft


class SparseMLP(nn.Module):
    def __init__(self, d=784, h=1024, classes=10):
        super().__init__()
        self.a, self.top, self.b = nn.Linear(d, h), SparseTopK(64), nn.Linear(h, classes)

    def forward(self, x):
        return self.b(self.top(self.a(x)))


def train(loader, device="cuda"):
    model = SparseMLP().to(device)
    opt = torch.optim.Adam(model.parameters())
    model.train()
    for x, y in loader:
        x, y = x.flatten(1).to(device), y.to(device)
        loss = -(label_smoothing(y, 10) * model(x).log_softmax(-1)).sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
