import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class ViTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class VideoTransformer(nn.Module):
    def __init__(self, dim=768, depth=12, heads=12, grad_checkpointing=True):
        super().__init__()
        self.blocks = nn.ModuleList(ViTBlock(dim, heads) for _ in range(depth))
        self.tail = nn.Sequential(*[ViTBlock(dim, heads) for _ in range(4)])
        self.grad_checkpointing = grad_checkpointing
        self.head = nn.Linear(dim, 400)

    def forward(self, tokens):
        x = tokens
        for block in self.blocks:
            if self.grad_checkpointing and self.training:
                x = checkpoint(block, x)  # expect: ESP505
            else:
                x = block(x)
        x = checkpoint_sequential(self.tail, 2, x)  # expect: ESP505
        return self.head(x.mean(1))
