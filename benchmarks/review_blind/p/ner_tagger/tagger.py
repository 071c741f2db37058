import math

import torch
import torch.nn as nn


class SinusoidPE(nn.Module):
    def __init__(self, d, max_len=512):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = torch.zeros(max_len, d)
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe, persistent=False)

    def forward(self, x):
        return x + self.pe[:x.size(1)]


class Tagger(nn.Module):
    def __init__(self, vocab, n_tags, d=192, heads=6, layers=3, p=0.2):
        super().__init__()
        self.scale = math.sqrt(d)
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.pe = SinusoidPE(d)
        self.drop = nn.Dropout(p)
        layer = nn.TransformerEncoderLayer(
            d, heads, 4 * d, dropout=p, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d)
        self.cls = nn.Linear(d, n_tags)

    def forward(self, ids, mask):
        h = self.drop(self.pe(self.emb(ids) * self.scale))
        h = self.encoder(h, src_key_padding_mask=mask.bool())
        return self.cls(self.norm(h))
