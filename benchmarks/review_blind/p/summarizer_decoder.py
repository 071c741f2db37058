"""Decoder-only abstractive summariser, attention written on SDPA."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class DecoderConfig:
    vocab: int = 24000
    d: int = 512
    heads: int = 8
    layers: int = 8
    max_len: int = 1024
    dropout: float = 0.1
    pad: int = 0


class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h, self.p = cfg.heads, cfg.dropout
        self.qkv = nn.Linear(cfg.d, 3 * cfg.d, bias=False)
        self.out = nn.Linear(cfg.d, cfg.d, bias=False)

    def forward(self, x, mask):
        b, t, d = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.p if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.d), nn.LayerNorm(cfg.d)
        self.attn = SelfAttention(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg.d, 4 * cfg.d), nn.GELU(),
                                nn.Linear(4 * cfg.d, cfg.d), nn.Dropout(cfg.dropout))

    def forward(self, x, mask):
        x = x + self.attn(self.n1(x), mask)
        return x + self.ff(self.n2(x))


def sinusoid(n, d):
    pos = torch.arange(n).unsqueeze(1)
    freq = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
    table = torch.zeros(n, d)
    table[:, 0::2], table[:, 1::2] = torch.sin(pos * freq), torch.cos(pos * freq)
    return table


class Summarizer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab, cfg.d, padding_idx=cfg.pad)
        self.pos = sinusoid(cfg.max_len, cfg.d)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.d)
        self.head = nn.Linear(cfg.d, cfg.vocab, bias=False)

    def causal(self, t, device):
        return torch.ones(t, t, dtype=torch.bool, device=device).triu(1)

    def forward(self, ids):
        t = ids.size(1)
        x = self.tok(ids) * math.sqrt(self.cfg.d) + self.pos[:t]
        mask = self.causal(t, ids.device)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


def lm_loss(logits, ids, prompt_len, pad):
    """Loss on the summary part only."""
    target = ids[:, 1:].clone()
    pos = torch.arange(target.size(1), device=ids.device)
    target[(pos[None] < prompt_len[:, None] - 1) | (target == pad)] = -100
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target, ignore_index=-100)


def train(loader, cfg, steps, device="cuda"):
    torch.manual_seed(8)
    model = Summarizer(cfg).to(device)
    opt = torch.optim.AdamW(model.parameters(), 3e-4, betas=(0.9, 0.98))
    it = iter(loader)
    model.train()
    for step in range(steps):
        try:
            ids, prompt_len = next(it)
        except StopIteration:
            it = iter(loader)
            ids, prompt_len = next(it)
        ids, prompt_len = ids.to(device), prompt_len.to(device)
        loss = lm_loss(model(ids), ids, prompt_len, cfg.pad)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 100 == 0:
            print(step, loss.item())
    return model
