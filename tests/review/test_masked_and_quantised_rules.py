"""Cases of ESP280, ESP281 and ESP282: formulas that are written with one part missing."""

from __future__ import annotations

import pytest

QUANTISER = """
    import torch
    from torch import nn

    class Quantiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.codebook = nn.Embedding(16, 4)

        def nearest(self, z):
            return self.codebook(torch.cdist(z, self.codebook.weight).argmin(1))

        def forward(self, z):
            {lines}
            return out
    """


@pytest.mark.parametrize(
    "lines",
    [
        "q = torch.round(z); out = z + (q - z)",
        "q = (z > 0).float(); out = (q - z) + z",
        "q = z.round(); d = q - z; out = z + d",
        "q = z.sign(); out = q - z + z",
        "q = z.floor(); out = z - (z - q)",
        "i = torch.cdist(z, self.codebook.weight).argmin(1); q = self.codebook(i).view_as(z); out = z + (q - z)",
        "q = self.nearest(z); out = z + (q - z)",
        "out = torch.tanh(z + (z.round() - z))",
    ],
)
def test_an_estimate_whose_difference_is_not_detached_is_reported(found, lines):
    assert len(found("ESP280", QUANTISER.format(lines=lines.replace("; ", "\n            ")))) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "q = torch.round(z); out = z + (q - z).detach()",
        "q = z.sign(); out = q.detach() - z.detach() + z",
        "q = z.round(); d = (q - z).detach(); out = z + d",
        "q = z.round(); with torch.no_grad():;     out = z + (q - z)",
        "q = torch.tanh(z); out = z + (q - z)",
        "q = z.round(); out = z + 0.5 * (q - z)",
        "q = z.round(); y = z.exp(); out = y + (q - z)",
    ],
)
def test_a_detached_or_other_difference_is_not_reported(found, lines):
    assert found("ESP280", QUANTISER.format(lines=lines.replace("; ", "\n            "))) == []


PENALTY = """
    import torch

    def penalty(critic, real, fake):
        {eps}
        x = (eps * real + (1 - eps) * fake).requires_grad_(True)
        grads = torch.autograd.grad(critic(x).sum(), x, create_graph=True){taken}
        return ((({norm}) - 1) ** 2).mean()
    """
RAND = "eps = torch.rand(real.size(0), 1, 1, 1, device=real.device)"


@pytest.mark.parametrize(
    ("eps", "taken", "norm"),
    [
        (RAND, "[0]", "grads.norm(2, dim=1)"),
        (RAND, "[0]", "grads.norm(2, 1)"),
        (RAND, "", "grads[0].norm(p=2, dim=1)"),
        ("eps = torch.rand((real.size(0), 1, 1, 1))", "[0]", "torch.norm(grads, 2, 1)"),
        ("eps = torch.rand(len(real)).view(-1, 1, 1, 1)", "[0]", "torch.linalg.vector_norm(grads, dim=1)"),
        ("eps = torch.rand(len(real))[:, None, None, None]", "[0]", "grads.pow(2).sum(1).sqrt()"),
        ("eps = torch.rand(len(real), 1, 1)", "[0]", "(grads + 1e-16).norm(2, dim=1)"),
    ],
)
def test_a_gradient_norm_over_channels_is_reported(found, eps, taken, norm):
    assert len(found("ESP281", PENALTY.format(eps=eps, taken=taken, norm=norm))) == 1


@pytest.mark.parametrize(
    ("eps", "taken", "norm"),
    [
        (RAND, "[0]", "grads.flatten(1).norm(2, dim=1)"),
        (RAND, "[0]", "grads.view(len(real), -1).norm(2, dim=1)"),
        (RAND, "[0]", "grads.norm(2, dim=(1, 2, 3))"),
        (RAND, "[0].reshape(len(real), -1)", "grads.norm(2, 1)"),
        (RAND, "[0]", "grads.pow(2).sum((1, 2, 3)).sqrt()"),
        ("eps = torch.rand(len(real), 1)", "[0]", "grads.norm(2, dim=1)"),
    ],
)
def test_a_norm_of_each_sample_is_not_reported(found, eps, taken, norm):
    assert found("ESP281", PENALTY.format(eps=eps, taken=taken, norm=norm)) == []


HARDEST = """
    import torch

    def distances(x):
        return torch.cdist(x, x)

    def hardest(x, y):
        dist = distances(x)
        same = y[:, None] == y[None]
        negative = (~same).float()
        return {result}
    """


@pytest.mark.parametrize(
    "result",
    [
        "(dist * negative).min(dim=1).values",
        "(negative * dist).min(1)[0]",
        "torch.min(dist * (~same), dim=1).values",
        "torch.amin(dist * (1 - same.float()), 1)",
        "(dist * y.ne(y[0])).argmin(1)",
        "dist.masked_fill(same, 0).min(1).values",
        "torch.where(same, dist, torch.zeros_like(dist)).amin(1)",
        "torch.cdist(x, x).mul(negative).min(1).values",
    ],
)
def test_a_minimum_over_zeroed_entries_is_reported(found, result):
    assert len(found("ESP282", HARDEST.format(result=result))) == 1


@pytest.mark.parametrize(
    "result",
    [
        "(dist * same.float()).max(dim=1).values",
        "dist.masked_fill(same, float('inf')).min(1).values",
        "(dist + 1e6 * same.float()).min(1).values",
        "(dist * x).min(1).values",
        "((x @ x.T) * negative).min(1).values",
        "torch.min(dist * negative, dist)",
        "(dist * 0.5).min()",
    ],
)
def test_a_minimum_over_what_counts_is_not_reported(found, result):
    assert found("ESP282", HARDEST.format(result=result)) == []
