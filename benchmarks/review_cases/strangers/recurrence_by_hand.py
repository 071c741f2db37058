"""Loops over time and over graphs of unlike sizes that cannot be one call."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SpikingLayer(nn.Module):
    """Leaky integrate-and-fire: each step needs the potential of the one before."""

    def __init__(self, cin, cout, decay=0.9, threshold=1.0):
        super().__init__()
        self.linear, self.decay, self.threshold = nn.Linear(cin, cout), decay, threshold

    def forward(self, currents):
        driven = self.linear(currents)
        potential, spikes = torch.zeros_like(driven[:, 0]), []
        for t in range(driven.shape[1]):
            potential = self.decay * potential + driven[:, t]
            soft = torch.sigmoid(4 * (potential - self.threshold))
            spike = (potential > self.threshold).float() + soft - soft.detach()
            potential = potential - spike.detach() * self.threshold
            spikes.append(spike)
        return torch.stack(spikes, dim=1)


class Ensemble(nn.Module):
    """Members differ in width, so they cannot be stacked."""

    def __init__(self, widths=(8, 16, 32)):
        super().__init__()
        self.members = nn.ModuleList(
            nn.Sequential(nn.Linear(4, w), nn.ReLU(), nn.Linear(w, 1)) for w in widths
        )

    def forward(self, x):
        return torch.stack([member(x) for member in self.members]).mean(0)


def rollout(model, state, steps):
    """Free-running forecast: the output of each step is the next input."""
    states = [state]
    for _ in range(steps):
        state = state + model(state)
        states.append(state)
    return torch.stack(states, dim=1)


def viterbi(emissions, transitions):
    score, pointers = emissions[:, 0], []
    for t in range(1, emissions.shape[1]):
        best, at = (score.unsqueeze(2) + transitions).max(dim=1)
        score = best + emissions[:, t]
        pointers.append(at)
    path = [score.argmax(1)]
    for at in reversed(pointers):
        path.append(at.gather(1, path[-1].unsqueeze(1)).squeeze(1))
    return torch.stack(path[::-1], dim=1)


def multi_scale(net, image, scales=(0.5, 1.0, 1.5)):
    size = image.shape[-2:]
    maps = [F.interpolate(net(F.interpolate(image, scale_factor=s)), size=size) for s in scales]
    return torch.stack(maps).mean(0)


if __name__ == "__main__":
    assert SpikingLayer(4, 6)(torch.randn(2, 10, 4)).shape == (2, 10, 6)
    assert Ensemble()(torch.randn(5, 4)).shape == (5, 1)
    assert rollout(nn.Linear(3, 3), torch.randn(2, 3), 4).shape == (2, 5, 3)
    assert viterbi(torch.randn(2, 7, 5), torch.randn(5, 5)).shape == (2, 7)
    assert multi_scale(nn.Conv2d(3, 2, 3, padding=1), torch.rand(1, 3, 16, 16)).shape == (1, 2, 16, 16)
