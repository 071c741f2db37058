import torch
from torch import nn

from sinusoid import table


class Encoder(nn.Module):
    def __init__(self, n_in, dim, limit=64):
        super().__init__()
        self.lift = nn.Linear(n_in, dim)
        self.register_buffer("where", table(limit, dim))
        self.mix = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, x):
        h = self.lift(x) + self.where[: x.shape[1]]
        return self.mix(h).mean(1)


class Task:
    def __init__(self, **sizes):
        self.encoder = Encoder(**sizes)
        self.opt = torch.optim.NAdam(self.encoder.parameters())

    def fit(self, batches):
        for x, y in batches:
            loss = nn.functional.mse_loss(self.encoder(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


if __name__ == "__main__":
    Task(n_in=3, dim=8).fit([(torch.randn(2, 10, 3), torch.randn(2, 1)) for _ in range(2)])
