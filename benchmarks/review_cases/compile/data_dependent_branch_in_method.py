import torch
import torch.nn as nn


class MixtureOfExperts(nn.Module):
    def __init__(self, dim=512, experts=8, k=2):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(experts)
        )
        self.k = k

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        weights, chosen = self.gate(x).softmax(-1).topk(self.k, dim=-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slot = (chosen == e).nonzero(as_tuple=True)  # expect: ESP501
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, slot, None])
        return out.view(shape)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.moe = nn.LayerNorm(dim), MixtureOfExperts(dim)

    def forward(self, x):
        y = self.moe(self.norm(x))
        if torch.isnan(y).any():  # expect: ESP501
            raise FloatingPointError("nan in expert output")
        return x + y


def build(device="cuda"):
    model = nn.Sequential(*[Block(512) for _ in range(4)]).to(device)
    model.compile(mode="max-autotune")
    return model
