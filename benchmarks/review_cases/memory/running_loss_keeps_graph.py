"""Matrix factorisation with side features."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class MF(nn.Module):
    def __init__(self, users, items, k=64):
        super().__init__()
        self.u, self.i = nn.Embedding(users, k), nn.Embedding(items, k)
        self.ub, self.ib = nn.Embedding(users, 1), nn.Embedding(items, 1)

    def forward(self, u, i):
        return (self.u(u) * self.i(i)).sum(-1) + self.ub(u).squeeze(-1) + self.ib(i).squeeze(-1)


def train(ratings, users, items, epochs=10, device="cuda"):
    loader = DataLoader(ratings, batch_size=4096, shuffle=True, num_workers=4)
    model = MF(users, items).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    for epoch in range(epochs):
        epoch_loss = 0
        for u, i, r in loader:
            u, i, r = u.to(device), i.to(device), r.to(device)
            loss = criterion(model(u, i), r.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            epoch_loss += loss  # expect: ESP301
        print(f"epoch {epoch}: {epoch_loss / len(loader):.4f}")
    return model
