import torch

from moe_heads import Ensemble


class Regression:
    optimizers = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}

    def __init__(self, spec):
        self.net = Ensemble(spec["members"])
        params = [p for p in self.net.parameters() if p.requires_grad]
        self.opt = self.optimizers[spec["optimizer"]](params, lr=spec["lr"])

    def step(self, x, y):
        loss = (self.net(x).squeeze(-1) - y).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


if __name__ == "__main__":
    job = Regression({"members": 3, "optimizer": "adam", "lr": 1e-3})
    job.step(torch.randn(8, 5), torch.randn(8))
