import torch


class MixedPrecision:
    """Scaled backward pass and step."""

    def __init__(self, optimizer, max_norm=1.0):
        self.optimizer, self.max_norm = optimizer, max_norm
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, loss, parameters):
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.clip(parameters)  # expect: ESP503 @c
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def clip(self, parameters):
        torch.nn.utils.clip_grad_norm_(parameters, self.max_norm)  # expect: ESP503 @c
