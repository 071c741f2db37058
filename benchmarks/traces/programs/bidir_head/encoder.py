"""Sequence encoder."""
import torch
from torch import nn


class SentenceEncoder(nn.Module):
    """Embedding and bidirectional LSTM; returns one vector for each sentence."""

    def __init__(self, vocabulary, embedding, hidden, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.rnn = nn.LSTM(embedding, hidden, batch_first=True, bidirectional=True)
        self.output_size = hidden

    def forward(self, tokens):
        embedded = self.dropout(self.embedding(tokens))
        states, _ = self.rnn(embedded)
        mask = (tokens != 0).unsqueeze(-1)
        summed = (states * mask).sum(dim=1)
        return summed / mask.sum(dim=1).clamp(min=1)
