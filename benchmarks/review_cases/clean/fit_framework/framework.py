"""A two-page training framework."""
import torch


class Callback:
    def on_epoch_end(self, loop): ...


class Loop:
    def __init__(self, model, optimizer, loss_fn, device, callbacks=()):
        self.model, self.optimizer, self.loss_fn = model.to(device), optimizer, loss_fn
        self.device, self.callbacks, self.epoch = device, callbacks, 0

    def _move(self, batch):
        return [t.to(self.device, non_blocking=True) for t in batch]

    def training_step(self, batch):
        *inputs, target = batch
        return self.loss_fn(self.model(*inputs), target)

    def run(self, train, valid, epochs):
        for self.epoch in range(epochs):
            self.model.train()
            for batch in train:
                self.optimizer.zero_grad(set_to_none=True)
                self.training_step(self._move(batch)).backward()
                self.optimizer.step()
            self.score = self.evaluate(valid)
            for callback in self.callbacks:
                callback.on_epoch_end(self)

    def evaluate(self, loader):
        self.model.eval()
        with torch.no_grad():
            return torch.stack([self.training_step(self._move(b)) for b in loader]).mean().item()
