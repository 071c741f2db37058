import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)
        self.states = []

    def forward(self, x, state):
        state = self.cell(x, state)
        self.remember(state)
        return state

    def remember(self, state):
        self.states.append(state.detach())


def train(loader):
    model = Recurrent()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x, torch.zeros(len(x), 8)), y).backward()
        optimizer.step()
