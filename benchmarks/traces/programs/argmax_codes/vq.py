import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, codes, dim):
        super().__init__()
        self.register_buffer("book", torch.randn(codes, dim))

    def forward(self, z):
        index = torch.cdist(z, self.book).argmin(1)
        return self.book[index], index
