from abc import ABC, abstractmethod

import torch


class AbstractTrainer(ABC):
    """Owns the order of things; subclasses say what a loss is."""

    def __init__(self, net, optimizer, device):
        self.net, self.optimizer, self.device = net.to(device), optimizer, device

    @abstractmethod
    def train_step(self, batch): ...

    @abstractmethod
    def eval_step(self, batch): ...

    def backward_and_step(self, loss, clip=1.0):
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), clip)
        self.optimizer.step()

    def fit(self, train, valid, epochs):
        for epoch in range(epochs):
            self.net.train()
            for batch in train:
                self.train_step(batch)
            self.net.eval()
            with torch.inference_mode():
                scores = [self.eval_step(batch) for batch in valid]
            print(epoch, torch.stack(scores).mean().item())
