import torch
import torch.nn as nn
import torch.nn.functional as F


class CachedLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, cache=None):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return x + self.out(y.transpose(1, 2).reshape(b, n, d)), (k, v)


class Lyrics(nn.Module):
    def __init__(self, vocab, d=256, heads=4, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(CachedLayer(d, heads) for _ in range(depth))
        self.out = nn.Linear(d, vocab)

    def forward(self, ids, caches=None):
        x = self.embed(ids)
        fresh = []
        for layer, cache in zip(self.layers, caches or [None] * len(self.layers)):
            x, cache = layer(x, cache)
            fresh.append(cache)
        return self.out(x[:, -1]), fresh


@torch.inference_mode()
def beam(model, prompt, width=4, longest=64, stop=1):
    """Decodes one verse; every step needs the words before it."""
    model.eval()
    logits, caches = model(prompt.expand(width, -1))
    scores = torch.full((width,), float("-inf"), device=prompt.device)
    scores[0] = 0.0
    verse = prompt.expand(width, -1)
    for _ in range(longest):
        total = scores[:, None] + logits.log_softmax(-1)
        scores, flat = total.flatten().topk(width)
        parent, word = flat // total.shape[1], flat % total.shape[1]
        verse = torch.cat([verse[parent], word[:, None]], dim=1)
        if (word == stop).all():
            break
        caches = [(k[parent], v[parent]) for k, v in caches]
        logits, caches = model(word[:, None], caches)
    return verse[scores.argmax()]


def train(model, verses, device, epochs=5):
    model.to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(epochs):
        model.train()
        for ids in verses:
            ids = ids.to(device)
            x = model.embed(ids[:, :-1])
            for layer in model.layers:
                x, _ = layer(x)
            loss = F.cross_entropy(model.out(x).flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
