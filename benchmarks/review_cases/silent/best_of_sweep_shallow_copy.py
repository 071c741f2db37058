import torch
from torch import nn


def train(model, loader, val_x, val_y, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    best_score, best = 0.0, {}
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            score = (model(val_x).argmax(1) == val_y).float().mean().item()
        if score >= best_score:
            best_score = score
            best = {"epoch": epoch, "weights": model.state_dict().copy()}  # expect: ESP214
    torch.save(best, "best.pt")
    return best_score
