import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=8, alpha=16.0, dropout=0.05):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.empty(r, base.in_features)), nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))
        self.drop, self.scale = nn.Dropout(dropout), alpha / r

    def forward(self, x):
        return self.base(x) + self.drop(x) @ self.a.t() @ self.b.t() * self.scale

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.b @ self.a * self.scale
        return self.base


def inject(model, names):
    for name, module in list(model.named_children()):
        if isinstance(module, nn.Linear) and name in names:
            setattr(model, name, LoRALinear(module))
        else:
            inject(module, names)
    return model


def load_base(model, path):
    state = torch.load(path, map_location="cpu", weights_only=True)
    incompatible = model.load_state_dict(state, strict=False)
    wrong = [k for k in incompatible.missing_keys if not k.endswith((".a", ".b"))]
    if wrong or incompatible.unexpected_keys:
        raise KeyError(f"missing {wrong}, unexpected {incompatible.unexpected_keys}")


def load_adapter(model, path, logger):
    state = torch.load(path, map_location="cpu", weights_only=True)
    missing, unexpected = model.load_state_dict(state, strict=False)
    logger.info("adapter: %d missing (the base), %d unexpected", len(missing), len(unexpected))


def train(model, loader, device, epochs=3):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, 2e-4)
    model.to(device).train()
    for epoch in range(epochs):
        for ids in loader:
            ids = ids.to(device)
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(epoch, loss.item())
        torch.save({k: v for k, v in model.state_dict().items() if k.endswith((".a", ".b"))}, "lora.pt")
