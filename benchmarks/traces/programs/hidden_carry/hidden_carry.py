import torch
from torch import nn


class CharModel(nn.Module):
    def __init__(self, n=20, hidden=24):
        super().__init__()
        self.emb = nn.Embedding(n, hidden)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, n)

    def forward(self, x, state=None):
        h, state = self.lstm(self.emb(x), state)
        return self.out(h), state


def train(model, steps=5):
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    state = None
    for step in range(steps):
        x = torch.randint(0, 20, (4, 11))
        logits, state = model(x[:, :-1], state)
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), x[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()


train(CharModel())
