import torch
from torch import nn
class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = self.make_optimizer(lr)

    def make_optimizer(self, lr):
        return torch.optim.AdamW(self.model.parameters(), lr=lr)

    def compute(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.model(x), y)

    def update(self, loss):
        loss.backward()  # expect: ESP101 @a
        self.optimizer.step()  # expect: ESP101 @a

    def fit(self, loader, epochs):
        for _ in range(epochs):
            for batch in loader:
                self.update(self.compute(batch))  # expect: ESP101 @a
