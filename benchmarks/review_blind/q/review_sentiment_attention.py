"""Sentence encoder for product reviews with two attention implementations.

The tokenizer puts a [CLS] token in front of every review, so no row is empty.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FusedSelfAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, keep):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=keep[:, None, None, :],
            dropout_p=self.dropout if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class LibrarySelfAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)

    def forward(self, x, keep):
        y, _ = self.attn(x, x, x, key_padding_mask=~keep, need_weights=False)
        return y


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads, fused, dropout=0.1):
        super().__init__()
        kind = FusedSelfAttention if fused else LibrarySelfAttention
        self.attn = kind(dim, heads, dropout)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(dropout),
                                 nn.Linear(4 * dim, dim))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, keep):
        x = x + self.drop(self.attn(self.norm1(x), keep))
        return x + self.drop(self.mlp(self.norm2(x)))


class SentimentNet(nn.Module):
    def __init__(self, vocab, dim=256, heads=8, depth=4, classes=5, max_len=512,
                 pad_id=0, fused=True):
        super().__init__()
        self.pad_id = pad_id
        self.tok = nn.Embedding(vocab, dim, padding_idx=pad_id)
        self.pos = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList(EncoderBlock(dim, heads, fused) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        keep = ids != self.pad_id
        x = self.tok(ids) + self.pos.weight[:ids.size(1)]
        for block in self.blocks:
            x = block(x, keep)
        x = self.norm(x).masked_fill(~keep.unsqueeze(-1), 0.0)
        pooled = x.sum(1) / keep.sum(1, keepdim=True).clamp(min=1)
        return F.log_softmax(self.head(pooled), dim=-1)


def train_epoch(model, loader, optimizer, device):
    model.train()
    total = torch.zeros((), device=device)
    for ids, label in loader:
        loss = F.nll_loss(model(ids.to(device)), label.to(device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.detach()
    return total.item() / len(loader)
