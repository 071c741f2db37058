import torch
import torch.nn as nn
import torch.nn.functional as F


class Router(nn.Module):
    def __init__(self, dim=256, experts=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))
        self.debug = False

    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask[..., None]
        if x.dim() == 2:
            x = x[:, None]
        if self.training and x.size(0) > 1:
            x = F.dropout(x, 0.1)
        weights = self.gate(x).softmax(-1)
        out = torch.stack([e(x) for e in self.experts], dim=-1)
        out = (out * weights.unsqueeze(-2)).sum(-1)
        return torch.where(torch.isnan(out), torch.zeros_like(out), out)


@torch.compile(fullgraph=True)
def fused(x, scale):
    y = F.gelu(x) * scale
    if y.shape[-1] % 2 == 0:
        a, b = y.chunk(2, dim=-1)
        y = a * b.sigmoid()
    return y


@torch.compiler.disable
def log_norm(x):
    print("norm", x.norm().item())


def train(loader, device="cuda"):
    model = torch.compile(Router().to(device))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    model.train()
    for i, (x, y) in enumerate(loader):
        out = model(x.to(device, non_blocking=True))
        loss = F.mse_loss(fused(out, 2.0), y.to(device, non_blocking=True))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if i % 200 == 0:
            log_norm(out)
            print(i, loss.item())


def variants(models):
    return {name: torch.compile(m) for name, m in models.items()}


class Lazy:
    def __init__(self, model):
        self.model, self._compiled = model, None

    def __call__(self, batches):
        outs = []
        for x in batches:
            if self._compiled is None:
                self._compiled = torch.compile(self.model, dynamic=True)
            outs.append(self._compiled(x))
        return outs
