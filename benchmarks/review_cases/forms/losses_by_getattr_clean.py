import torch
from torch import nn
class Log:
    def __init__(self):
        self.rows = []

    def write(self, row):
        self.rows.append(row)


def train(model, loader, optimizer, log_method="write"):
    log = Log()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        getattr(log, "write")({"loss": loss.detach()})
    return log.rows
