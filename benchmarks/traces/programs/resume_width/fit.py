import torch

from net import Regressor


def fit(path, steps=5):
    torch.manual_seed(0)
    model = Regressor(width=64)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(32, 8)
        loss = ((model(x) - x.sum(1)) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save({"model": model.state_dict(), "steps": steps}, path)
