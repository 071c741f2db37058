import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, h):
        n = self.norm(h)
        h = h + self.attn(n, n, n, need_weights=False)[0]
        return h + self.ff(h)


class Decoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.tok = nn.Embedding(s.vocab, s.width)
        self.pos = nn.Embedding(s.block_size, s.width)
        self.layers = nn.ModuleList(Layer(s.width) for _ in range(s.layers))
        self.out = nn.Linear(s.width, s.vocab)

    def forward(self, idx):
        where = torch.arange(idx.shape[1], device=idx.device)
        h = self.tok(idx) + self.pos(where)
        for layer in self.layers:
            h = layer(h)
        return self.out(h)
