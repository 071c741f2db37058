"""Preallocated key/value cache."""
import torch


class LayerCache:
    def __init__(self, batch, heads, max_len, head_dim, dtype, device):
        shape = (batch, heads, max_len, head_dim)
        self.k = torch.zeros(shape, dtype=dtype, device=device)
        self.v = torch.zeros(shape, dtype=dtype, device=device)

    def update(self, start, k, v):
        end = start + k.size(2)
        if end > self.k.size(2):
            raise ValueError(f"cache holds {self.k.size(2)} positions, {end} requested")
        self.k[:, :, start:end] = k
        self.v[:, :, start:end] = v
        return self.k[:, :, :end], self.v[:, :, :end]


class DecoderCache:
    def __init__(self, config, batch, max_len, dtype, device):
        self.layers = [
            LayerCache(batch, config.kv_heads, max_len, config.head_dim, dtype, device)
            for _ in range(config.depth)]
        self.length = 0

    def advance(self, steps):
        self.length += steps
