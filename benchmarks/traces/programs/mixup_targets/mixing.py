import torch


def mixup(x, y, alpha=0.4):
    lam = torch.distributions.Beta(alpha, alpha).sample()
    order = torch.randperm(len(x))
    return lam * x + (1 - lam) * x[order], lam * y + (1 - lam) * y[order]
