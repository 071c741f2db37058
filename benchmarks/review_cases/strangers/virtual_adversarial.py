"""Virtual adversarial training of a text encoder: leaves that are written to, each in a lawful way."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def kl(p_logits, q_logits):
    return F.kl_div(q_logits.log_softmax(-1), p_logits.softmax(-1), reduction="batchmean")


def perturbation(head, embedded, logits, xi=1e-1, eps=1.0, rounds=1):
    direction = torch.randn_like(embedded)
    for _ in range(rounds):
        direction = F.normalize(direction.flatten(1), dim=1).view_as(embedded)
        delta = (xi * direction).detach().requires_grad_()
        found = torch.autograd.grad(kl(logits, head(embedded.detach() + delta)), delta)[0]
        direction = found.detach()
    delta = eps * F.normalize(direction.flatten(1), dim=1).view_as(embedded)
    delta.clamp_(-eps, eps)
    return delta


class Encoder(nn.Module):
    def __init__(self, vocab=1000, dim=32, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.scale = nn.Parameter(torch.empty(dim))
        self.head = nn.Sequential(nn.Flatten(), nn.LazyLinear(64), nn.ReLU(), nn.Linear(64, classes))
        with torch.no_grad():
            self.scale.fill_(1.0)
            self.embed.weight[0].zero_()
        nn.init.trunc_normal_(self.head[-1].weight, std=0.02)

    def forward(self, ids):
        embedded = self.embed(ids) * self.scale
        return embedded, self.head(embedded)

    @torch.no_grad()
    def renormalise(self):
        self.embed.weight.renorm_(2, 0, 5.0)


def step(model, optimizer, ids, labels, weight=1.0):
    embedded, logits = model(ids)
    delta = perturbation(model.head, embedded, logits.detach())
    loss = F.cross_entropy(logits, labels) + weight * kl(logits.detach(), model.head(embedded + delta))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.renormalise()
    return loss.detach()


if __name__ == "__main__":
    net, ids = Encoder(), torch.randint(0, 1000, (4, 10))
    net(ids)
    step(net, torch.optim.SGD(net.parameters(), 0.1), ids, torch.tensor([0, 1, 2, 0]))
