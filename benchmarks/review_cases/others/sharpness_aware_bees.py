import torch
from torch import nn


class SAM(torch.optim.Optimizer):
    """Sharpness-aware minimisation around any other optimizer."""

    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self):
        norms = [p.grad.norm() for g in self.param_groups for p in g["params"] if p.grad is not None]
        scale = self.param_groups[0]["rho"] / (torch.stack(norms).norm() + 1e-12)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["before"] = p.clone()
                p.add_(p.grad * scale)
        self.zero_grad()

    @torch.no_grad()
    def descend(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.copy_(self.state[p]["before"])
        self.base.step()
        self.zero_grad()


def train(net, loader, device, epochs=40):
    net = net.to(device)
    sam = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
    for _ in range(epochs):
        net.train()
        for photo, species in loader:
            photo, species = photo.to(device), species.to(device)
            smooth(net(photo), species).backward()
            sam.climb()
            smooth(net(photo), species).backward()
            sam.descend()
    return net


def evaluate(net, loader, device):
    net.train(mode=False)
    right = seen = 0
    with torch.no_grad():
        for photo, species in loader:
            right += (net(photo.to(device)).argmax(1).cpu() == species).sum().item()  # allow: ESP305
            seen += species.numel()
    return right / seen
