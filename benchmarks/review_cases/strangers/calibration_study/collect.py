import torch


def logits_of(model, loader, device):
    """All logits and labels of a split."""
    model.eval()
    logits, labels = [], []
    for scan, grade in loader:
        logits.append(model(scan.to(device)))  # expect: ESP302 @grad, ESP303 @kept
        labels.append(grade.to(device))
    return torch.cat(logits), torch.cat(labels)
