"""Vector quantization with exponential moving averages."""
import torch
from torch import nn


class Quantizer(nn.Module):
    """Maps vectors to the nearest code."""

    def __init__(self, codes, size, decay=0.9):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(codes, size))
        self.decay = decay

    def distances(self, vectors):
        return (
            vectors.pow(2).sum(1, keepdim=True)
            - 2 * vectors @ self.codebook.t()
            + self.codebook.pow(2).sum(1)
        )

    @torch.no_grad()
    def move_codes(self, vectors, indices):
        for code in indices.unique():
            mean = vectors[indices == code].mean(dim=0)
            self.codebook[code] = self.decay * self.codebook[code] + (1 - self.decay) * mean

    def forward(self, vectors):
        distances = self.distances(vectors)
        indices = distances.argmin(dim=1)
        if self.training:
            self.move_codes(vectors.detach(), indices)
        usage = torch.softmax(-distances, dim=1).mean(dim=0)
        entropy = -(usage * (usage + 1e-8).log()).sum()
        quantized = self.codebook[indices]
        straight = vectors + (quantized - vectors).detach()
        commitment = (quantized.detach() - vectors).pow(2).mean()
        return straight, commitment - 0.01 * entropy
