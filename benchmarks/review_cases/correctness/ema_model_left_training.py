import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class EMA:
    def __init__(self, model, decay=0.9995):
        self.module = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.module.state_dict().values(), model.state_dict().values()):
            if s.dtype.is_floating_point:
                s.lerp_(p, 1 - self.decay)
            else:
                s.copy_(p)


def build(classes=1000):
    from torchvision.models import efficientnet_v2_s

    return efficientnet_v2_s(num_classes=classes)


def train(loaders, epochs, device="cuda"):
    model = build().to(device)
    model.train()
    ema = EMA(model)
    opt = torch.optim.RMSprop(model.parameters(), 0.016, alpha=0.9, momentum=0.9, eps=1e-3)
    for epoch in range(epochs):
        model.train()
        for x, y in loaders["train"]:
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            ema.update(model)

        model.eval()
        hits = torch.zeros((), device=device)
        with torch.no_grad():
            for x, y in loaders["val"]:
                hits += (ema.module(x.to(device)).argmax(1) == y.to(device)).sum()  # expect: ESP102
        print(epoch, hits.item() / len(loaders["val"].dataset))
    return ema.module
