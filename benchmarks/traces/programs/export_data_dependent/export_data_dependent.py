import torch
from torch import nn


class Trim(nn.Module):
    def forward(self, tokens, length):
        n = length.item()
        if n > 4:
            tokens = tokens[:, :4]
        return tokens.sum(1)


torch.export.export(Trim(), (torch.ones(2, 8), torch.tensor(5)))
