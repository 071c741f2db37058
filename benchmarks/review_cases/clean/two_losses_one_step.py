"""Several backward calls, one step: gradients add up on purpose."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DANN(nn.Module):
    def __init__(self, d=256, classes=31):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2048, d), nn.ReLU(), nn.Dropout(0.5))
        self.c, self.d = nn.Linear(d, classes), nn.Linear(d, 2)

    def forward(self, x, lam=1.0):
        h = self.f(x)
        return self.c(h), self.d(Reverse.apply(h, lam))


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g, None


def train(model, source, target, device, epochs=50):
    opt = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    model.to(device).train()
    for epoch in range(epochs):
        for (xs, ys), (xt, _) in zip(source, target):
            xs, ys, xt = xs.to(device), ys.to(device), xt.to(device)
            model.zero_grad(set_to_none=True)
            cls, dom = model(xs)
            (F.cross_entropy(cls, ys) + F.cross_entropy(dom, torch.zeros(len(xs), dtype=torch.long, device=device))).backward()
            _, dom_t = model(xt)
            F.cross_entropy(dom_t, torch.ones(len(xt), dtype=torch.long, device=device)).backward()
            opt.step()


def sam_step(model, x, y, opt, rho=0.05):
    """Sharpness-aware minimisation: climb, take gradients, come back, step."""
    F.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        eps = [p.grad * (rho / (norm + 1e-12)) for p in model.parameters()]
        for p, e in zip(model.parameters(), eps):
            p.add_(e)
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for p, e in zip(model.parameters(), eps):
            p.sub_(e)
    opt.step()
    opt.zero_grad()


def truncated(model, chunks, opt, h):
    for i, (x, y) in enumerate(chunks):
        out, h = model(x, h)
        F.mse_loss(out, y).backward()
        h = h.detach()
        if i % 4 == 3:
            opt.step()
            opt.zero_grad()
    return h
