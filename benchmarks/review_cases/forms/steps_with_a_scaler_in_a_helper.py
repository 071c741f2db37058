import torch
from torch import nn
class Amp:
    def __init__(self, optimizer):
        self.optimizer, self.scaler = optimizer, torch.amp.GradScaler()

    def __call__(self, loss):
        self.scaler.scale(loss).backward()  # expect: ESP101 @a
        self.scaler.step(self.optimizer)  # expect: ESP101 @a
        self.scaler.update()


def train(model, loader):
    amp = Amp(torch.optim.SGD(model.parameters(), lr=0.1))
    for batch in loader:
        with torch.autocast("cuda"):
            loss = model(batch).square().mean()
        amp(loss)  # expect: ESP101 @a
