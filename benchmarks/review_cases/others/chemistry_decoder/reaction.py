import torch
import torch.nn.functional as F
from torch import nn

from masks import causal, lengths_to_padding


class CausalAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, padding):
        b, n, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.mT / (d // self.heads) ** 0.5
        scores = scores.masked_fill(causal(n), float("-inf"))  # expect: ESP104 @mask
        scores = scores.masked_fill(padding[:, None, None], -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class SmilesModel(nn.Module):
    def __init__(self, vocab, d=256, heads=8, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(CausalAttention(d, heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids, lengths):
        padding = lengths_to_padding(lengths, ids.shape[1])
        x = self.embed(ids)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x), padding)
        return self.head(x)


def train(loader, vocab, epochs=10):
    device = torch.device("cuda")
    model = SmilesModel(vocab).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(epochs):
        model.train()
        for ids, lengths in loader:
            ids, lengths = ids.to(device), lengths.to(device)
            logits = model(ids[:, :-1], lengths - 1)
            loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], ignore_index=0)
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model
