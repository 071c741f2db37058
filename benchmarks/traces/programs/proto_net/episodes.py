import torch


def episode(ways=5, shots=3, classes=40, dim=8):
    chosen = torch.randperm(classes)[:ways]
    labels = chosen.repeat_interleave(shots)
    return torch.randn(ways * shots, dim), labels
