import torch.nn as nn


class SpeechNet(nn.Module):
    def __init__(self, n_mels, vocab, width=256):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(n_mels, width, 5, stride=2, padding=2), nn.GELU(), nn.Conv1d(width, width, 5, padding=2), nn.GELU())
        self.rnn = nn.LSTM(width, width, num_layers=3, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(2 * width, vocab)

    def forward(self, mels, lens):
        h = self.conv(mels).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.head(h).log_softmax(-1), (lens + 1) // 2
