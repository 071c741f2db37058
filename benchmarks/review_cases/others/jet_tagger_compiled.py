"""Tags jets of particles; jets have between 10 and 150 constituents."""

import torch
from torch import nn
import torch.nn.functional as F


class DeepSet(nn.Module):
    def __init__(self, features=7, width=128, tags=5):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.rho = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, tags))

    def forward(self, jets):
        return self.rho(self.phi(jets).sum(dim=1))


def smear(jets, sigma):
    scale = 1 + sigma * torch.randn_like(jets[..., :1])
    return torch.cat([jets[..., :1] * scale, jets[..., 1:]], dim=-1)


def train(model, batches, epochs, device):
    model.to(device).train()
    opt = torch.optim.NAdam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for jets, tag in batches:
            jets, tag = jets.to(device), tag.to(device)
            noise = torch.compile(smear)  # expect: ESP504
            loss = F.cross_entropy(model(noise(jets, 0.02)), tag)
            opt.zero_grad()
            loss.backward()
            opt.step()


@torch.no_grad()
def score_events(model, events, device):
    """Scores each jet with its own number of particles, one shape a jet."""
    model.eval()
    tagger = torch.compile(model, dynamic=False)
    scores = []
    for jet, n in events:
        scores.append(tagger(jet[None, :n].to(device)).softmax(-1))  # expect: ESP506 # allow: ESP408, ESP410
    return torch.cat(scores)
