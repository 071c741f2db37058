import torch
from torch import nn


class Stateful(nn.Module):
    def __init__(self, inputs, hidden, batch):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, 1)
        self.hidden, self.batch = hidden, batch

    def start(self):
        zeros = torch.zeros(2, self.batch, self.hidden)
        return zeros, zeros.clone()

    def forward(self, x, state):
        y, state = self.lstm(x, state)
        return self.out(y[:, -1]).squeeze(1), tuple(s.detach() for s in state)
