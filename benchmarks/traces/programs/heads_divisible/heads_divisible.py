import torch
from torch import nn


class Config:
    d_model = 100
    heads = 8


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = nn.MultiheadAttention(cfg.d_model, cfg.heads)
        self.norm = nn.LayerNorm(cfg.d_model)


Layer(Config())
