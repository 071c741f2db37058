"""Reshaping as attention, patches and recurrent layers need it, all of it sound."""
import torch
import torch.nn as nn


class Heads(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.h, self.q, self.o = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.q(x).view(b, t, 3, self.h, c // self.h).unbind(2)
        q, k, v = (z.transpose(1, 2) for z in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        y = y.transpose(1, 2).contiguous().view(b, t, c)
        return self.o(y)


def to_map(tokens, h, w):
    b, n, c = tokens.shape
    return tokens.transpose(1, 2).reshape(b, c, h, w)


def to_map_too(tokens, h, w):
    b, _, c = tokens.shape
    return tokens.permute(0, 2, 1).view(b, c, h, w)


def windows(x, s):
    b, h, w, c = x.shape
    x = x.view(b, h // s, s, w // s, s, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, s * s, c)


def pixel_unshuffle(x, r):
    b, c, h, w = x.shape
    x = x.reshape(b, c, h // r, r, w // r, r)
    return x.permute(0, 1, 3, 5, 2, 4).reshape(b, c * r * r, h // r, w // r)


def channel_shuffle(x, groups):
    b, c, h, w = x.size()
    x = x.view(b, groups, c // groups, h, w)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(b, -1, h, w)


def merge_layers(h, layers, directions):
    _, b, d = h.shape
    last = h.view(layers, directions, b, d)[-1]
    return last.transpose(0, 1).reshape(b, directions * d)


def image(array):
    t = torch.from_numpy(array).permute(2, 0, 1).float()
    return t.div_(255).unsqueeze(0)


def flatten_batch_and_time(x):
    b, t = x.shape[:2]
    return x.view(b * t, *x.shape[2:]), (b, t)


def unflatten(y, b, t):
    return y.view(b, t, *y.shape[1:])


def square(x):
    n = int(x.size(1) ** 0.5)
    return x.view(x.size(0), n, n)
