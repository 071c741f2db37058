"""Beam search with a key-value cache for a translation model."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CachedAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, past=None):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(b, n, d)), (k, v)


class Decoder(nn.Module):
    def __init__(self, vocab=50, dim=32, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(CachedAttention(dim) for _ in range(depth))
        self.vocab = nn.Linear(dim, vocab)

    def forward(self, token, caches):
        h, new = self.embed(token).unsqueeze(1), []
        for layer, past in zip(self.layers, caches):
            y, kept = layer(h, past)
            h = h + y
            new.append(kept)
        return self.vocab(h[:, -1]), new


@torch.inference_mode()
def beam_search(model, start, width=4, steps=20, end=2):
    model.eval()
    device = start.device
    sequences = start.view(1, 1).expand(width, 1)
    scores = torch.full((width,), float("-inf"), device=device)
    scores[0] = 0.0
    caches = [None] * len(model.layers)
    for _ in range(steps):
        logits, caches = model(sequences[:, -1], caches)
        total = scores.unsqueeze(1) + logits.log_softmax(-1)
        scores, flat = total.flatten().topk(width)
        parent, token = flat // logits.shape[1], flat % logits.shape[1]
        sequences = torch.cat([sequences[parent], token.unsqueeze(1)], dim=1)
        caches = [(k[parent], v[parent]) for k, v in caches]
    return sequences[scores.argmax()]


if __name__ == "__main__":
    assert beam_search(Decoder(), torch.tensor(1)).shape == (21,)
