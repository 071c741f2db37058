"""Low-rank adapters for a frozen decoder, with activation recomputation."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank=8, alpha=16.0, dropout=0.05):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.scaling = alpha / rank
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(self.dropout(x), self.down), self.up) * self.scaling


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        B, T, C = x.shape
        h = self.norm1(x)
        split = lambda t: t.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.q_proj(h)), split(self.k_proj(h)),
                                           split(self.v_proj(h)), is_causal=True)
        x = x + self.o_proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Summarizer(nn.Module):
    def __init__(self, vocab, dim=1024, heads=16, depth=24, max_len=2048):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.recompute = False

    def forward(self, ids, labels=None):
        x = self.embed(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            if self.recompute and self.training:
                x = checkpoint(layer, x, use_reentrant=True)
            else:
                x = layer(x)
        logits = self.lm_head(self.norm(x))
        if labels is None:
            return logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(),
                               ignore_index=-100)


def add_adapters(model, rank=8, targets=("q_proj", "v_proj")):
    model.requires_grad_(False)
    for layer in model.layers:
        for name in targets:
            setattr(layer, name, LoRALinear(getattr(layer, name), rank=rank))
    model.norm.requires_grad_(True)
    model.recompute = True
    return [p for p in model.parameters() if p.requires_grad]


def train(model, loader, epochs, lr=2e-4, device="cuda"):
    params = add_adapters(model)
    model.to(device).train()
    optimizer = torch.optim.AdamW(params, lr=lr)
    for epoch in range(epochs):
        for step, batch in enumerate(loader):
            loss = model(batch["input_ids"].to(device), batch["labels"].to(device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            if step % 50 == 0:
                print(f"{epoch}:{step} loss {loss.item():.4f}")
