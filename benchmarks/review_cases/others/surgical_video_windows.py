import torch
import torch.nn as nn
import torch.utils.checkpoint as cp


def split(x, s):
    b, h, w, c = x.shape
    x = x.view(b, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, s * s, c)


def merge(windows, s, h, w):
    c = windows.shape[-1]
    x = windows.view(-1, h // s, w // s, s, s, c)
    return x.permute(0, 1, 3, 2, 4, 5).view(-1, h, w, c)  # expect: ESP208


class WindowBlock(nn.Module):
    def __init__(self, c, heads, s):
        super().__init__()
        self.s = s
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.attn = nn.MultiheadAttention(c, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))

    def forward(self, x):
        h, w = x.shape[1:3]
        win = split(self.n1(x), self.s)
        win = self.attn(win, win, win, need_weights=False)[0]
        x = x + merge(win, self.s, h, w)
        return x + self.mlp(self.n2(x))


class PhaseNet(nn.Module):
    """Phase of an operation from frames; frames of a clip are folded into the batch."""

    def __init__(self, c=96, depth=12, phases=7, frugal=True):
        super().__init__()
        self.frugal = frugal
        self.patch = nn.Conv2d(3, c, 4, 4)
        self.blocks = nn.ModuleList([WindowBlock(c, 4, 8) for _ in range(depth)])
        self.head = nn.Linear(c, phases)

    def forward(self, clip):
        b, t = clip.shape[:2]
        x = self.patch(clip.flatten(0, 1)).permute(0, 2, 3, 1)
        for blk in self.blocks:
            if self.frugal and self.training:
                x = cp.checkpoint(blk, x)  # expect: ESP505
            else:
                x = blk(x)
        return self.head(x.mean((1, 2)).unflatten(0, (b, t)).mean(1))
