"""Transformer features + graph reasoning over candidate mentions."""
import torch
import torch.nn as nn

from layers import GatedBlock, normalise, pool_mentions


class QueryEncoder(nn.Module):
    def __init__(self, in_dim, dim):
        super().__init__()
        self.rnn = nn.LSTM(in_dim, dim // 2, num_layers=2, bidirectional=True,
                           batch_first=True, dropout=0.2)

    def forward(self, query):
        _, (h, _) = self.rnn(query)
        return torch.cat([h[-2], h[-1]], dim=-1)


class CandidateScorer(nn.Module):
    def __init__(self, in_dim=768, dim=256, n_rels=4, hops=3, dropout=0.2):
        super().__init__()
        self.query = QueryEncoder(in_dim, dim)
        self.project = nn.Linear(in_dim, dim)
        self.fuse = nn.Sequential(nn.Linear(2 * dim, dim), nn.Tanh())
        self.blocks = nn.ModuleList(GatedBlock(dim, n_rels, dropout) for _ in range(hops))
        self.output = nn.Sequential(
            nn.Linear(2 * dim, dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(dim, 1))

    def forward(self, query, mentions, adj, mention_to_candidate, n_candidates):
        q = self.query(query)
        x = self.fuse(torch.cat([self.project(mentions), q.expand(mentions.size(0), -1)], -1))
        adj = normalise(adj)
        for block in self.blocks:
            x = block(x, adj)
        pooled = pool_mentions(x, mention_to_candidate, n_candidates)
        pooled = torch.cat([pooled, q.expand(n_candidates, -1)], dim=-1)
        scores = self.output(pooled).squeeze(-1)
        return scores.softmax(dim=-1)
