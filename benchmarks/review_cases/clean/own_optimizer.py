import torch
from torch.optim import Optimizer


class Lion(Optimizer):
    """Sign of an interpolated momentum."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                m = state["m"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = m.mul(b1).add_(p.grad, alpha=1 - b1).sign_()
                p.add_(update, alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)
        return loss


class Lookahead:
    def __init__(self, base, k=5, alpha=0.5):
        self.base, self.k, self.alpha, self.n = base, k, alpha, 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in base.param_groups]

    def zero_grad(self, set_to_none=True):
        self.base.zero_grad(set_to_none)

    def step(self):
        self.base.step()
        self.n += 1
        if self.n % self.k == 0:
            for group, slows in zip(self.base.param_groups, self.slow):
                for p, s in zip(group["params"], slows):
                    s += self.alpha * (p.detach() - s)
                    p.data.copy_(s)


def train(model, loader, steps):
    opt = Lookahead(Lion(model.parameters()))
    model.train()
    for _, (x, y) in zip(range(steps), loader):
        opt.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
