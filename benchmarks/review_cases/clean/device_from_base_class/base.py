import torch
import torch.nn as nn


class BaseModel(nn.Module):
    """Knows where it lives, and moves batches there."""

    @property
    def device(self):
        return next(self.parameters()).device

    def to_here(self, batch):
        if torch.is_tensor(batch):
            return batch.to(self.device, non_blocking=True)
        if isinstance(batch, dict):
            return {k: self.to_here(v) for k, v in batch.items()}
        if isinstance(batch, (list, tuple)):
            return type(batch)(self.to_here(v) for v in batch)
        return batch

    def positions(self, n):
        return torch.arange(n, device=self.device)
