"""Train an autoencoder with quantized codes."""
import torch
from torch import nn

from quantizer import Quantizer


class Autoencoder(nn.Module):
    """Linear encoder, quantizer, linear decoder."""

    def __init__(self, features, size=8, codes=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, size))
        self.quantizer = Quantizer(codes, size)
        self.decode = nn.Sequential(nn.Linear(size, 32), nn.ReLU(), nn.Linear(32, features))

    def forward(self, rows):
        codes, penalty = self.quantizer(self.encode(rows))
        return self.decode(codes), penalty


def main():
    torch.manual_seed(0)
    model = Autoencoder(20)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = torch.randn(256, 20)
    for epoch in range(2):
        for batch in data.split(64):
            rebuilt, penalty = model(batch)
            loss = nn.functional.mse_loss(rebuilt, batch) + penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
