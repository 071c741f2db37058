"""Score a large test set and keep all logits."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class Scorer(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, classes))

    def forward(self, x):
        return self.f(x)


@torch.no_grad()
def all_logits(model, loader, device):
    model.eval()
    logits = torch.empty(0, device=device)
    labels = torch.empty(0, dtype=torch.long)
    for x, y in loader:
        logits = torch.cat([logits, model(x.to(device))], dim=0)  # expect: ESP401
        labels = torch.cat((labels, y))  # expect: ESP401
    return logits, labels


def temperature(logits, labels, steps=200):
    t = torch.ones(1, requires_grad=True, device=logits.device)
    opt = torch.optim.LBFGS([t], lr=0.01, max_iter=steps)

    def closure():
        opt.zero_grad()
        loss = nn.functional.cross_entropy(logits / t.clamp_min(1e-3), labels)
        loss.backward()
        return loss

    opt.step(closure)
    return t.item()


def calibrate(model, dataset, device="cuda"):
    loader = DataLoader(dataset, batch_size=1024, num_workers=4, pin_memory=True)
    logits, labels = all_logits(model.to(device), loader, device)
    return temperature(logits, labels.to(device))
