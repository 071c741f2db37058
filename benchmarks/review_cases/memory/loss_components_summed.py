import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHead(nn.Module):
    def __init__(self, trunk, dim, heads):
        super().__init__()
        self.trunk = trunk
        self.heads = nn.ModuleDict({k: nn.Linear(dim, n) for k, n in heads.items()})

    def forward(self, x):
        h = self.trunk(x)
        return {k: head(h) for k, head in self.heads.items()}


def fit(model, loader, heads, device, epochs=10):
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    model.to(device).train()
    for epoch in range(epochs):
        sums = dict.fromkeys(heads, 0.0)
        steps = 0
        for x, targets in loader:
            out = model(x.to(device))
            losses = {k: F.cross_entropy(out[k], targets[k].to(device)) for k in heads}
            loss = sum(losses.values())
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            for k, v in losses.items():
                sums[k] += v  # expect: ESP301
            steps += 1
        print(epoch, {k: f"{v / steps:.3f}" for k, v in sums.items()})
