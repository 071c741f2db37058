import torch
from torch import nn
def train(model, loader):
    optimizer = torch.optim.LBFGS(model.parameters())
    for batch in loader:
        def closure():
            optimizer.zero_grad()
            loss = model(batch).sum()
            loss.backward()
            return loss
        optimizer.step(closure)
