"""Quantiles of the demand over several horizons; targets are broadcast over quantiles on purpose."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DemandNet(nn.Module):
    def __init__(self, inputs=8, horizon=14, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.horizon = horizon
        self.register_buffer("q", torch.tensor(quantiles))
        self.rnn = nn.GRU(inputs, 64, batch_first=True)
        self.out = nn.Linear(64, horizon * len(quantiles))
        self.level = nn.Linear(64, 1)
        self.promo = nn.Linear(64, 1)

    def forward(self, past):
        h = self.rnn(past)[1].squeeze(0)
        bands = self.out(h).view(len(past), self.horizon, -1)
        return bands, self.level(h), self.promo(h).flatten()

    def loss(self, past, future, promoted):
        bands, level, promo = self(past)
        gap = future.unsqueeze(-1) - bands
        pinball = torch.maximum(self.q * gap, (self.q - 1) * gap).mean()
        mean_level = F.mse_loss(level, future.mean(dim=1, keepdim=True))
        return pinball + 0.1 * mean_level + F.binary_cross_entropy_with_logits(promo, promoted)


def fit(net, loader, epochs, device):
    net.to(device).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(epochs):
        for past, future, promoted in loader:
            loss = net.loss(past.to(device), future.to(device), promoted.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return net


if __name__ == "__main__":
    batch = torch.randn(4, 30, 8), torch.rand(4, 14), torch.randint(0, 2, (4,)).float()
    fit(DemandNet(), [batch], 2, "cpu")
