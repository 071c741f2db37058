import torch

SCHEDULERS = {
    "cosine": torch.optim.lr_scheduler.CosineAnnealingLR,
    "step": torch.optim.lr_scheduler.StepLR,
}


def build(registry, optimizer, spec):
    spec = dict(spec)
    return registry[spec.pop("name")](optimizer, **spec)
