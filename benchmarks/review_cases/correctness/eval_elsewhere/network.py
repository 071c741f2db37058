import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence


class TextLSTM(nn.Module):
    def __init__(self, vocab: int, classes: int, emb: int = 128, hidden: int = 256):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.rnn = nn.LSTM(emb, hidden, batch_first=True)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.emb(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (h, _) = self.rnn(packed)
        return self.fc(self.drop(h[-1]))
