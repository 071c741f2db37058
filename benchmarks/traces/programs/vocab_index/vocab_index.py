import torch
from torch import nn


class TextEncoder(nn.Module):
    def __init__(self, vocab, dim=16):
        super().__init__()
        self.embed = nn.Embedding(len(vocab), dim)
        self.rnn = nn.GRU(dim, 32, batch_first=True)

    def forward(self, ids):
        out, _ = self.rnn(self.embed(ids))
        return out[:, -1]


def build_vocab(lines):
    vocab = {"<pad>": 0}
    for line in lines:
        for word in line.split():
            vocab.setdefault(word, len(vocab) + 1)
    return vocab


lines = ["the cat sat", "the dog ran", "a bird flew"]
vocab = build_vocab(lines)
enc = TextEncoder(vocab)
ids = torch.tensor([[vocab[w] for w in line.split()] for line in lines])
print(enc(ids).shape)
