"""Relational graph layers for multi-hop reading comprehension."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RelationalConv(nn.Module):
    def __init__(self, in_dim, out_dim, n_rels, n_bases=8):
        super().__init__()
        self.bases = nn.Parameter(torch.empty(n_bases, in_dim, out_dim))
        self.coeff = nn.Parameter(torch.empty(n_rels, n_bases))
        self.self_loop = nn.Linear(in_dim, out_dim)
        nn.init.xavier_uniform_(self.bases)
        nn.init.xavier_uniform_(self.coeff)

    def forward(self, x, adj):
        """x (N, D); adj (R, N, N) row-normalised."""
        weight = torch.einsum("rb,bio->rio", self.coeff, self.bases)
        messages = torch.einsum("rnm,mi,rio->no", adj, x, weight)
        return self.self_loop(x) + messages


class GatedBlock(nn.Module):
    def __init__(self, dim, n_rels, dropout=0.2):
        super().__init__()
        self.conv = RelationalConv(dim, dim, n_rels)
        self.gate = nn.Linear(2 * dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, adj):
        update = self.dropout(self.conv(x, adj))
        g = torch.sigmoid(self.gate(torch.cat([update, x], dim=-1)))
        return g * torch.tanh(update) + (1 - g) * x


def normalise(adj):
    return adj / adj.sum(-1, keepdim=True).clamp(min=1.0)


def pool_mentions(states, mention_to_candidate, n_candidates):
    """Max over the mentions of each candidate; states (N, D)."""
    out = states.new_full((n_candidates, states.size(-1)), -1e4)
    index = mention_to_candidate[:, None].expand_as(states)
    out = out.scatter_reduce(0, index, states, reduce="amax")
    return F.relu(out)
