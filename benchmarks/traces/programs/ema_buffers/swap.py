import torch


class Average:
    def __init__(self, model):
        self.model, self.shadow = model, [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, rate=0.9):
        for kept, p in zip(self.shadow, self.model.parameters()):
            kept.mul_(rate).add_(p, alpha=1 - rate)

    @torch.no_grad()
    def apply(self):
        for kept, p in zip(self.shadow, self.model.parameters()):
            p.copy_(kept)
