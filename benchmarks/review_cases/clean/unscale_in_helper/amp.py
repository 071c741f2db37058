import torch


class NativeScaler:
    """Backward, optional clipping of true gradients, step, update."""

    def __init__(self, device="cuda"):
        self.scaler = torch.amp.GradScaler(device)

    def __call__(self, loss, optimizer, parameters=None, max_norm=None, update=True):
        self.scaler.scale(loss).backward()
        if not update:
            return
        if max_norm is not None:
            self.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        self.scaler.step(optimizer)
        self.scaler.update()

    def state_dict(self):
        return self.scaler.state_dict()
