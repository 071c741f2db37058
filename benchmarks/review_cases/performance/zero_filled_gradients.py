import torch
import torch.nn as nn
import torch.nn.functional as F


class Adversary(nn.Module):
    def __init__(self, d, groups):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, groups))

    def forward(self, h):
        return self.net(h)


class FairTrainer:
    """Adversarial debiasing: the predictor must not reveal the group."""

    def __init__(self, predictor, adversary, lam=1.0):
        self.predictor, self.adversary, self.lam = predictor, adversary, lam
        self.p_opt = torch.optim.Adam(predictor.parameters(), 1e-3)
        self.a_opt = torch.optim.Adam(adversary.parameters(), 1e-3)

    def reset_grads(self):
        for p in self.adversary.parameters():
            if p.grad is not None:
                p.grad.zero_()  # expect: ESP405

    def step(self, x, y, g):
        logits = self.predictor(x)
        self.reset_grads()
        a_loss = F.cross_entropy(self.adversary(logits.detach()), g)
        a_loss.backward()
        self.a_opt.step()

        self.p_opt.zero_grad(set_to_none=False)  # expect: ESP405
        loss = F.cross_entropy(logits, y) - self.lam * F.cross_entropy(self.adversary(logits), g)
        loss.backward()
        self.p_opt.step()
        return loss.detach(), a_loss.detach()


def run(predictor, groups, loader, device, epochs=10):
    trainer = FairTrainer(predictor.to(device), Adversary(2, groups).to(device))
    for epoch in range(epochs):
        for x, y, g in loader:
            trainer.step(x.to(device), y.to(device), g.to(device))
