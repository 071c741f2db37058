import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pinball import Pinball

QUANTILES = (0.1, 0.5, 0.9)


class Demand(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.hidden = nn.Linear(n_in, 12)
        self.out = nn.Linear(12, len(QUANTILES))

    def forward(self, x):
        return self.out(self.hidden(x).relu())


def fit():
    x = torch.randn(40, 6)
    loader = DataLoader(TensorDataset(x, x.sum(1)), batch_size=8)
    model, loss_fn = Demand(6), Pinball(QUANTILES)
    opt = torch.optim.Adam(model.parameters())
    for features, demand in loader:
        loss = loss_fn(model(features), demand)
        opt.zero_grad()
        loss.backward()
        opt.step()


fit()
