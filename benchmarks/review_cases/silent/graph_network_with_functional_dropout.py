"""Graph network with functional dropout."""
import torch
from torch import nn
import torch.nn.functional as F


class Conv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin = nn.Linear(a, b)

    def forward(self, x, adj):
        return adj @ self.lin(x)


class GCN(nn.Module):
    def __init__(self, features, hidden, classes, p=0.5):
        super().__init__()
        self.p = p
        self.first = Conv(features, hidden)
        self.second = Conv(hidden, classes)

    def forward(self, x, adj):
        x = F.relu(self.first(x, adj))
        x = F.dropout(x, self.p)  # expect: ESP216
        return F.log_softmax(self.second(x, adj), dim=1)


def train(model, data, epochs=200):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(epochs):
        model.train()
        out = model(data.x, data.adj)
        loss = F.nll_loss(out[data.train_mask], data.y[data.train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        pred = model(data.x, data.adj).argmax(1)
    return (pred[data.test_mask] == data.y[data.test_mask]).float().mean()
