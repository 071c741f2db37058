import torch


def tame(parameters, limit=0.5):
    """Keeps one bad batch from throwing the weights away."""
    params = [p for p in parameters if p.grad is not None]
    return torch.nn.utils.clip_grad_norm_(params, max_norm=limit)  # expect: ESP503 @clip
