import torch
from torch import nn


class Captioner(nn.Module):
    def __init__(self, vocab=20, dim=8):
        super().__init__()
        self.image = nn.Linear(10, dim)
        self.words = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.vocab = nn.Linear(dim, vocab)

    def forward(self, image, words):
        start = self.image(image).unsqueeze(1)
        states, _ = self.rnn(torch.cat([start, self.words(words)], 1))
        return self.vocab(states[:, :-1])
