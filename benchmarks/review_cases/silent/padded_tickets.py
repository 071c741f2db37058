"""Encodes support tickets of different lengths."""

import torch
from torch import nn


def real_tokens(lengths, size):
    return torch.arange(size, device=lengths.device).unsqueeze(0) < lengths.unsqueeze(1)


class TicketEncoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3)

    def forward(self, tickets, lengths):
        mask = real_tokens(lengths, tickets.shape[1])
        hidden = self.encoder(self.embed(tickets), src_key_padding_mask=mask)  # expect: ESP221
        return (hidden * mask.unsqueeze(-1)).sum(1) / lengths.unsqueeze(-1)
