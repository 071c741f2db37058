import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader

from tweets import TEXTS, Tweets, pad


class Reader(nn.Module):
    def __init__(self, vocab, dim=8):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, 1)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.out(torch.cat([h[0], h[1]], -1))


if __name__ == "__main__":
    data = Tweets(TEXTS)
    model = Reader(len(data.ids) + 1)
    for ids, lengths in DataLoader(data, batch_size=2, collate_fn=pad):
        print(model(ids, lengths).shape)
