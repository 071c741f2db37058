"""Image and caption encoders projected to a common space."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ImageTower(nn.Module):
    def __init__(self, image_size=224, patch=16, dim=512, depth=8, heads=8, out=256):
        super().__init__()
        n = (image_size // patch) ** 2
        self.patchify = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.randn(1, n, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Linear(dim, out, bias=False)

    def forward(self, images):
        x = self.patchify(images).flatten(2).transpose(1, 2) + self.pos
        return self.proj(self.norm(self.blocks(x)).mean(1))


class CaptionTower(nn.Module):
    def __init__(self, vocab, dim=512, depth=6, heads=8, out=256, max_len=77, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embed = nn.Embedding(vocab, dim, padding_idx=pad_id)
        self.pos = nn.Parameter(torch.randn(1, max_len, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Linear(dim, out, bias=False)

    def forward(self, ids):
        pad = ids == self.pad_id
        x = self.embed(ids) + self.pos[:, :ids.size(1)]
        x = self.norm(self.blocks(x, src_key_padding_mask=pad))
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        return self.proj((x * keep).sum(1) / keep.sum(1).clamp(min=1))


class DualEncoder(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.image, self.caption = ImageTower(), CaptionTower(vocab)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images, ids):
        img = F.normalize(self.image(images), dim=-1)
        txt = F.normalize(self.caption(ids), dim=-1)
        return img, txt, self.logit_scale.clamp(max=math.log(100.0)).exp()
