import torch
from torch import nn
def train(models, loader):
    optimizers = {name: torch.optim.SGD(model.parameters(), lr=0.1) for name, model in models.items()}
    for batch in loader:
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        sum(model(batch).sum() for model in models.values()).backward()
        for optimizer in optimizers.values():
            optimizer.step()
