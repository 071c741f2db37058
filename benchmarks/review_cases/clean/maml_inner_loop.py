"""Model-agnostic meta-learning with functional_call; inner steps use autograd.grad, nothing accumulates."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call


class ConvNet(nn.Module):
    def __init__(self, ways):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.ReLU(), nn.MaxPool2d(2))
        self.net = nn.Sequential(block(1, 64), block(64, 64), block(64, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, ways))

    def forward(self, x):
        return self.net(x)


def adapt(model, params, x, y, lr, steps, create_graph):
    for _ in range(steps):
        loss = F.cross_entropy(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, tuple(params.values()), create_graph=create_graph)
        params = {k: p - lr * g for (k, p), g in zip(params.items(), grads)}
    return params


def meta_train(model, tasks, device, iterations=10_000, inner_lr=0.4, meta_lr=1e-3, batch=32):
    model.to(device).train()
    opt = torch.optim.Adam(model.parameters(), meta_lr)
    for it in range(iterations):
        opt.zero_grad()
        total = torch.zeros((), device=device)
        for xs, ys, xq, yq in tasks(batch):
            xs, ys, xq, yq = (t.to(device) for t in (xs, ys, xq, yq))
            fast = adapt(model, dict(model.named_parameters()), xs, ys, inner_lr, 1, True)
            loss = F.cross_entropy(functional_call(model, fast, (xq,)), yq) / batch
            loss.backward()
            total += loss.detach()
        opt.step()
        if it % 100 == 0:
            print(it, total.item())


def meta_test(model, tasks, device, steps=3):
    hits = []
    for xs, ys, xq, yq in tasks(100):
        xs, ys, xq, yq = (t.to(device) for t in (xs, ys, xq, yq))
        fast = adapt(model, dict(model.named_parameters()), xs, ys, 0.4, steps, False)
        with torch.no_grad():
            hits.append((functional_call(model, fast, (xq,)).argmax(1) == yq).float().mean())
    return torch.stack(hits).mean().item()
