import torch


def huber(pred, target, delta=1.0):
    err = pred - target  # expect: ESP105 @b
    small = err.abs() <= delta
    return torch.where(small, 0.5 * err**2, delta * (err.abs() - 0.5 * delta)).mean()


def quantile(pred, target, q=0.5):
    err = target - pred
    return torch.maximum(q * err, (q - 1) * err).mean()
