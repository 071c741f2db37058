import torch
import torch.nn as nn


class VectorQuantizer(nn.Module):
    """Codebook with exponential moving averages."""

    def __init__(self, codes=512, dim=64, decay=0.99, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        embed = torch.empty(codes, dim)
        embed.uniform_(-1 / codes, 1 / codes)
        self.register_buffer("embed", embed)
        self.register_buffer("size", torch.zeros(codes))
        self.register_buffer("avg", embed.clone())
        self.scale = nn.Parameter(torch.empty(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.ones_(self.scale)
        with torch.no_grad():
            self.bias[0] = 0.5
            self.bias.add_(1e-3)

    def forward(self, x):
        flat = x.detach().reshape(-1, x.size(-1))
        idx = torch.cdist(flat, self.embed).argmin(-1)
        if self.training:
            onehot = nn.functional.one_hot(idx, self.embed.size(0)).type_as(flat)
            self.size.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
            self.avg.mul_(self.decay).add_(onehot.t() @ flat, alpha=1 - self.decay)
            n = self.size.sum()
            smoothed = (self.size + self.eps) / (n + self.size.numel() * self.eps) * n
            self.embed.copy_(self.avg / smoothed.unsqueeze(1))
        quant = self.embed[idx].view_as(x)
        quant = x + (quant - x).detach()
        return quant * self.scale + self.bias


@torch.no_grad()
def ema_update(model, shadow, decay=0.999):
    for p, s in zip(model.parameters(), shadow.parameters()):
        s.mul_(decay).add_(p, alpha=1 - decay)


def fgsm(model, x, y, eps):
    x = x.clone().detach().requires_grad_(True)
    nn.functional.cross_entropy(model(x), y).backward()
    adv = x + eps * x.grad.sign()
    adv.clamp_(0, 1)
    return adv.detach()


def project(weight: nn.Parameter):
    weight.data.clamp_(-1, 1)
    w = weight * 2
    w += 1
    return w.sum()
