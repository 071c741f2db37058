import torch
from torch.nn.functional import cross_entropy

from towers import MatchingModel


def fit(train_loader, cards, device, epochs=5, lr=0.01):
    model = MatchingModel(*cards).to(device)
    sparse = torch.optim.Adagrad(model.parameters(), lr=lr)
    model.train()
    for epoch in range(epochs):
        for batch in train_loader:
            users, items = batch["user"].to(device), batch["item"].to(device)
            scores = model(users, items)
            in_batch = torch.arange(scores.shape[0], device=device)
            loss = cross_entropy(scores, in_batch)  # expect: ESP201 @twice
            sparse.zero_grad()
            loss.backward()
            sparse.step()
    return model


@torch.no_grad()
def recall_at(model, loader, k=10, device="cuda"):
    model.eval()
    hit = total = 0
    for batch in loader:
        scores = model(batch["user"].to(device), batch["item"].to(device))
        top = scores.topk(min(k, scores.shape[1]), dim=1).indices
        want = torch.arange(len(scores), device=device).unsqueeze(1)
        hit = hit + (top == want).any(dim=1).sum()
        total += len(scores)
    return (hit / total).item()
