import torch
from torch import nn

EMB, FLAGS = 16, 2


class Tokens(nn.Module):
    def __init__(self, vocab, classes):
        super().__init__()
        self.emb = nn.Embedding(vocab, EMB)
        self.rnn = nn.LSTM(EMB, 20, batch_first=True)
        self.cls = nn.Linear(20, classes)

    def forward(self, ids, flags):
        x = torch.cat([self.emb(ids), flags], -1)
        return self.cls(self.rnn(x)[0][:, -1])
