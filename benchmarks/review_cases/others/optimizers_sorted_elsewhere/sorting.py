import torch


def by_rank(model):
    matrices, rest = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if p.ndim == 2 and "embed" not in name and "readout" not in name:
            matrices.append(p)
        else:
            rest.append(p)
    return matrices, rest


class Both:
    """Steps two optimizers as one."""

    def __init__(self, model, lr=0.02):
        matrices, rest = by_rank(model)
        self.parts = [torch.optim.Muon(matrices, lr=lr), torch.optim.AdamW(rest, lr=3e-4)]

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def step(self):
        for part in self.parts:
            part.step()

    def update(self, loss):
        self.zero_grad()
        loss.backward()
        self.step()
