import torch
from torch import nn

from vq import Quantizer


class VQ(nn.Module):
    def __init__(self, n=6, dim=3):
        super().__init__()
        self.enc = nn.Linear(n, dim)
        self.vq = Quantizer(16, dim)

    def forward(self, x):
        quantised, index = self.vq(self.enc(x))
        return quantised, index


def train():
    model, target = VQ(), torch.randn(12, 3)
    opt = torch.optim.Adam(model.parameters())
    for _ in range(2):
        codes, _ = model(torch.randn(12, 6))
        loss = (codes - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    train()
