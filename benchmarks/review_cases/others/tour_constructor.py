import torch
from torch import nn


class TourPointer(nn.Module):
    """Chooses the next city of a tour by attention over those that are left."""

    def __init__(self, dim=128):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.key, self.query = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.contexts = []

    def forward(self, cities):
        b, n, _ = cities.shape
        emb = self.embed(cities)
        keys = self.key(emb)
        h = emb.mean(1)
        inp = torch.zeros_like(h)
        left = torch.ones(b, n, dtype=torch.bool, device=cities.device)
        tour, logps = [], []
        for _ in range(n):
            h = self.cell(inp, h)
            scores = (keys @ self.query(h).unsqueeze(-1)).squeeze(-1).masked_fill(~left, float("-inf"))
            dist = torch.distributions.Categorical(logits=scores)
            pick = dist.sample()
            logps.append(dist.log_prob(pick))
            tour.append(pick)
            left = left.scatter(1, pick[:, None], False)
            inp = emb[torch.arange(b, device=cities.device), pick]
            self.contexts.append(h)  # expect: ESP303|ESP301
        return torch.stack(tour, 1), torch.stack(logps, 1).sum(1)


def tour_lengths(cities, tours):
    lengths = torch.zeros(tours.size(0), device=cities.device)
    for b in range(tours.size(0)):
        for i in range(tours.size(1)):
            here, there = tours[b, i], tours[b, (i + 1) % tours.size(1)]
            lengths[b] += (cities[b, here] - cities[b, there]).norm()  # expect: ESP409
    return lengths


def train(policy, device, steps=10_000, batch=256, n=20):
    policy.to(device).train()
    opt = torch.optim.Adam(policy.parameters(), lr=1e-4)
    baseline = None
    for _ in range(steps):
        cities = torch.rand(batch, n, 2, device=device)
        tours, logp = policy(cities)
        cost = tour_lengths(cities, tours).detach()
        baseline = cost.mean() if baseline is None else 0.9 * baseline + 0.1 * cost.mean()
        loss = ((cost - baseline) * logp).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
