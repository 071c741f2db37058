import torch


def make_schedule(opt, n_batches, epochs, accumulate):
    total = n_batches // accumulate * epochs
    return torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=total)
