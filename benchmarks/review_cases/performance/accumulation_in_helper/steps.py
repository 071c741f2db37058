import torch
import torch.nn.functional as F


class Accumulator:
    """Adds up gradients of several batches before each step."""

    def __init__(self, model, optimizer, every):
        self.model, self.optimizer, self.every, self.count = model, optimizer, every, 0

    def __call__(self, x, y):
        loss = F.cross_entropy(self.model(x), y) / self.every
        loss.backward()  # expect: ESP412
        self.count += 1
        if self.count % self.every == 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()
