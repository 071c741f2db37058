import torch
from torch import nn
def call(name, *objects):
    for each in objects:
        getattr(each, name)()


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    for batch in loader:
        call("zero_grad", optimizer)
        model(batch).sum().backward()
        call("step", optimizer, scheduler)
