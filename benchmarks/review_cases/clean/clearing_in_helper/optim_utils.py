"""Small conveniences round optimizers."""
import torch


class Stepper:
    """Steps an optimizer with clipping, and leaves gradients clean for the next batch."""

    def __init__(self, optimizer, max_norm=None, scheduler=None):
        self.optimizer, self.max_norm, self.scheduler = optimizer, max_norm, scheduler

    @property
    def params(self):
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def __call__(self):
        if self.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.params, self.max_norm)
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
