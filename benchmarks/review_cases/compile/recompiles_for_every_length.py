"""Serve a tagger; texts are cut to their own length."""
import torch
import torch.nn as nn


class Tagger(nn.Module):
    def __init__(self, vocab=20000, dim=256, tags=17):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(dim, 4, batch_first=True), 4)
        self.out = nn.Linear(dim, tags)

    def forward(self, ids):
        return self.out(self.enc(self.emb(ids)))


@torch.compile(dynamic=False)
def window_score(x, width: int):
    return x.unfold(0, width, 1).mean(-1).max()


def tag_all(texts, vocab):
    model = torch.compile(Tagger(len(vocab)).cuda().eval(), dynamic=False)
    tags = []
    with torch.inference_mode():
        for text in texts:
            ids = torch.tensor([[vocab.get(w, 0) for w in text.split()]], device="cuda")
            tags.append(model(ids).argmax(-1))  # expect: ESP506
    return tags


def best_windows(signal):
    return [window_score(signal, width) for width in range(2, 200)]  # expect: ESP506
