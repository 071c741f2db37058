import torch
from torch import nn

from stats import Running


def train():
    model, stats = nn.Linear(4, 2), Running()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        out = model(torch.randn(8, 4))
        spread = out.var(0).mean()
        loss = out.pow(2).mean() / (1.0 + stats.update("spread", spread))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    train()
