import torch
from torch import nn


class Seq(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.hidden = hidden
        self.rnn = nn.LSTM(4, hidden, num_layers=2, batch_first=True)

    def init_state(self, batch):
        return torch.zeros(2, batch, self.hidden), torch.zeros(2, batch, self.hidden)

    def forward(self, x, state):
        return self.rnn(x, state)


model = Seq()
state = model.init_state(32)
for batch in torch.randn(70, 10, 4).split(32):
    out, state = model(batch, state)
    state = tuple(s.detach() for s in state)
