"""TENT: at test time, batch norm statistics and affine parameters adapt by minimising entropy."""
import torch
import torch.nn as nn


class Tent(nn.Module):
    def __init__(self, model, optimizer, steps=1, episodic=False):
        super().__init__()
        self.model, self.optimizer, self.steps, self.episodic = model, optimizer, steps, episodic
        self.model_state = {k: v.clone() for k, v in model.state_dict().items()}

    def forward(self, x):
        if self.episodic:
            self.model.load_state_dict(self.model_state, strict=True)
        for _ in range(self.steps):
            outputs = forward_and_adapt(x, self.model, self.optimizer)
        return outputs


@torch.enable_grad()
def forward_and_adapt(x, model, optimizer):
    outputs = model(x)
    entropy = -(outputs.softmax(1) * outputs.log_softmax(1)).sum(1)
    entropy.mean(0).backward()
    optimizer.step()
    optimizer.zero_grad()
    return outputs


def configure(model):
    model.train()
    model.requires_grad_(False)
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.requires_grad_(True)
            m.track_running_stats = False
            m.running_mean = m.running_var = None
    return model


def corrupted_accuracy(model, loader, device):
    model = configure(model.to(device))
    params = [p for p in model.parameters() if p.requires_grad]
    tent = Tent(model, torch.optim.SGD(params, 2.5e-4, momentum=0.9))
    hits = torch.zeros((), device=device)
    for x, y in loader:
        hits += (tent(x.to(device)).argmax(1) == y.to(device)).sum()
    return hits.item() / len(loader.dataset)
