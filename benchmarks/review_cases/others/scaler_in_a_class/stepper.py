import torch


class Stepper:
    """Scaling, clipping and stepping in the order that they need."""

    def __init__(self, optimizer, clip=1.0, enabled=True):
        self.optimizer, self.clip = optimizer, clip
        self.scaler = torch.amp.GradScaler("cuda", enabled=enabled)

    def __call__(self, loss, parameters):
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return norm.detach()
