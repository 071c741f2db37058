import torch
from torch import nn
class Fitter:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr)

    def fit_batch(self, batch):
        x, y = batch
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def fit(self, loader):
        losses = list(map(self.fit_batch, loader))  # expect: ESP301
        return sum(losses) / len(losses)
