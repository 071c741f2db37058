import torch
from torch import nn
class Callback:
    def on_batch_end(self, trainer, loss):
        pass


class History(Callback):
    def __init__(self):
        self.losses = []

    def on_batch_end(self, trainer, loss):
        self.losses.append(loss)  # expect: ESP301 @a


class Trainer:
    def __init__(self, model, callbacks=()):
        self.model = model
        self.callbacks = list(callbacks)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(self, loader):
        for x, y in loader:
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.emit(loss)  # expect: ESP301 @a

    def emit(self, loss):
        for callback in self.callbacks:
            callback.on_batch_end(self, loss)  # expect: ESP301 @a


def main(loader):
    trainer = Trainer(nn.Linear(4, 4), callbacks=[History()])
    trainer.fit(loader)
