import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvCTC(nn.Module):
    """Strided conv front end + BiGRU, CTC output. Index 0 is the blank."""

    def __init__(self, n_mels=80, vocab=32, d=256):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(n_mels, d, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(d, d, 5, stride=2, padding=2), nn.GELU())
        self.rnn = nn.GRU(d, d // 2, 3, batch_first=True, bidirectional=True, dropout=0.1)
        self.out = nn.Linear(d, vocab)

    @staticmethod
    def out_lengths(n):
        for _ in range(2):
            n = torch.div(n - 1, 2, rounding_mode="floor") + 1
        return n

    def forward(self, mel):
        h = self.front(mel).transpose(1, 2)
        h, _ = self.rnn(h)
        return F.log_softmax(self.out(h), dim=-1)


def greedy(logp, lengths):
    best = logp.argmax(dim=-1).cpu()
    hyps = []
    for row, n in zip(best, lengths.tolist()):
        ids = torch.unique_consecutive(row[:n])
        hyps.append(ids[ids != 0].tolist())
    return hyps
