"""Retrieval stage of the shop: towers trained with in-batch negatives."""
import torch
import torch.nn.functional as F

from recall import recall_at
from towers import TwoTower


def train(train_loader, valid_loader, catalogue, users, items, epochs=5, device="cuda"):
    model = TwoTower(users, items).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    best = 0.0
    for epoch in range(epochs):
        model.train()
        for user, ud, item, idense in train_loader:
            scores = model(user.to(device), ud.to(device), item.to(device), idense.to(device))
            loss = F.cross_entropy(scores, torch.arange(len(scores), device=device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        recall = recall_at(model, catalogue, valid_loader, device=device)  # expect: ESP102 @mode
        print(f"epoch {epoch} recall@50 {recall:.4f}")
        if recall > best:
            best = recall
            torch.save(model.state_dict(), "towers.pt")
    return model
