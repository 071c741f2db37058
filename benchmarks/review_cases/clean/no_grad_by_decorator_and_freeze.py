from functools import wraps

import torch
import torch.nn as nn
import torch.nn.functional as F


def inference(fn):
    """Run a method in evaluation mode without gradients, and restore the mode."""

    @wraps(fn)
    def wrapper(self, *args, **kwargs):
        mode = self.model.training
        self.model.eval()
        with torch.inference_mode():
            result = fn(self, *args, **kwargs)
        self.model.train(mode)
        return result

    return wrapper


class TwoStage(nn.Module):
    def __init__(self, encoder, dim, classes):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.encoder(x))


class Runner:
    def __init__(self, model, loaders, device):
        self.model, self.loaders, self.device = model.to(device), loaders, device
        self.opt = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), 1e-3)

    @inference
    def accuracy(self, split):
        hits = sum((self.model(x.to(self.device)).argmax(1).cpu() == y).sum() for x, y in self.loaders[split])
        return hits.item() / len(self.loaders[split].dataset)

    @inference
    def embed(self, split):
        out = []
        for x, _ in self.loaders[split]:
            out.append(self.model.encoder(x.to(self.device)))
        return torch.cat(out)

    def fit(self, epochs):
        self.model.train()
        for epoch in range(epochs):
            for x, y in self.loaders["train"]:
                loss = F.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
            print(epoch, self.accuracy("val"))
