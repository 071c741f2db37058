"""Compiled code with branches, none of them on what a tensor holds."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Router(nn.Module):
    """Mixture of experts with a dense fallback."""

    def __init__(self, dim=32, experts=4, jitter=0.01):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.weights = nn.Parameter(torch.randn(experts, dim, dim) / dim**0.5)
        self.jitter = jitter
        self.norm = None

    def forward(self, x, mask=None):
        if self.training and self.jitter > 0:
            x = x * (1 + self.jitter * torch.randn_like(x))
        share = self.gate(x).softmax(-1)
        top, which = share.topk(2, dim=-1)
        kept = torch.zeros_like(share).scatter(-1, which, top)
        y = torch.einsum("bnd,edf,bne->bnf", x, self.weights, kept)
        if mask is not None:
            y = torch.where(mask.unsqueeze(-1), y, torch.zeros_like(y))
        if y.shape[-1] == x.shape[-1]:
            y = y + x
        return y if self.norm is None else self.norm(y)

    def report(self, x):
        share = self.gate(x).softmax(-1).mean((0, 1))
        print("load", share.tolist())
        if share.max() > 0.9:
            print("one expert takes all")


@torch.compile(fullgraph=True, backend="eager")
def step_loss(router, x, target, mask):
    error = F.mse_loss(router(x, mask), target, reduction="none").mean(-1)
    return torch.where(mask, error, 0.0).sum() / mask.sum().clamp(min=1)


def train(router, batches, lr=1e-3):
    optimizer = torch.optim.AdamW(router.parameters(), lr=torch.tensor(lr))
    router.train()
    for number, (x, target, mask) in enumerate(batches):
        loss = step_loss(router, x, target, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 100 == 0:
            router.report(x)
    return router


if __name__ == "__main__":
    batch = torch.randn(2, 5, 32), torch.randn(2, 5, 32), torch.rand(2, 5) > 0.2
    train(Router(), [batch] * 3)
