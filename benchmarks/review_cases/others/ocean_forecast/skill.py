import torch


def climatology_skill(forecaster, batches, climatology, device):
    """One minus the squared error over that of the climatology; called after each epoch."""
    forecaster.eval()
    error = torch.zeros((), device=device)
    naive = torch.zeros((), device=device)
    for past, future, month in batches:
        future = future.to(device, non_blocking=True)
        ahead = forecaster(past.to(device, non_blocking=True))  # expect: ESP302 @grad
        base = climatology[month.to(device)]
        error += ((ahead - future) ** 2).sum()  # expect: ESP302|ESP301 @grad
        naive += ((base - future) ** 2).sum()
    return 1 - (error / naive.clamp(min=1e-8)).item()
