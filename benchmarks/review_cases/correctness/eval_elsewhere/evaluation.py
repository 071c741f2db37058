"""Metrics on the held-out split."""
import torch
from sklearn.metrics import f1_score


def collect(model, loader, device):
    preds, golds = [], []
    with torch.inference_mode():
        for tokens, lengths, labels in loader:
            scores = model(tokens.to(device), lengths)  # expect: ESP102
            preds.append(scores.argmax(dim=1).cpu())
            golds.append(labels)
    return torch.cat(preds), torch.cat(golds)


def report(model, loader, device):
    preds, golds = collect(model, loader, device)
    return {"f1": f1_score(golds, preds, average="macro"), "acc": (preds == golds).float().mean().item()}
