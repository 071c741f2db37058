import torch
from torch import nn

G, D = nn.Linear(4, 4), nn.Linear(4, 1)
og = torch.optim.SGD(G.parameters(), lr=0.1)
od = torch.optim.SGD(D.parameters(), lr=0.1)


def train_step(real):
    fake = G(torch.randn_like(real))
    d_loss = D(fake).mean() - D(real).mean()
    od.zero_grad()
    d_loss.backward()
    od.step()
    g_loss = -D(fake).mean()
    og.zero_grad()
    g_loss.backward()
    og.step()


train_step(torch.randn(8, 4))
