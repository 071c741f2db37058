import torch
from torch import nn

from conf import CFG
from rope import Rotary


class CausalAttention(nn.Module):
    def __init__(self, dim, heads, max_len):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.rot = Rotary(dim // heads, max_len)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(self.rot(q), self.rot(k), v, is_causal=True)
        return y.transpose(1, 2).reshape(b, t, d)


class LM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg["vocab"], cfg["dim"])
        self.attn = CausalAttention(cfg["dim"], cfg["heads"], cfg["max_len"])
        self.lm_head = nn.Linear(cfg["dim"], cfg["vocab"])

    def forward(self, ids):
        return self.lm_head(self.attn(self.emb(ids)))


def generate(model, prompt, n):
    ids = prompt
    with torch.inference_mode():
        for _ in range(n):
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
    return ids


if __name__ == "__main__":
    print(generate(LM(CFG), torch.zeros(1, 4, dtype=torch.long), 20))
