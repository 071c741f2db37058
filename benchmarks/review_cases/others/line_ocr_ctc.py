import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = "-abcdefghijklmnopqrstuvwxyz0123456789 .,'"


class LineReader(nn.Module):
    """Reads a text line of height 32; the width is time."""

    def __init__(self, n_chars=len(ALPHABET), hidden=256):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2),
            nn.Conv2d(128, 256, 3, padding=1), nn.BatchNorm2d(256), nn.ReLU(True), nn.MaxPool2d((2, 1)),
        )  # fmt: skip
        self.rnn = nn.LSTM(256 * 4, hidden, num_layers=2, bidirectional=True, dropout=0.1)
        self.fc = nn.Linear(2 * hidden, n_chars)

    def forward(self, lines):
        maps = self.cnn(lines)
        b, c, h, w = maps.size()
        seq = maps.view(w, b, c * h)  # expect: ESP209
        out, _ = self.rnn(seq)
        return self.fc(out)


def greedy(logits):
    best = logits.argmax(-1).t().tolist()
    texts = []
    for row in best:
        chars = [ALPHABET[c] for i, c in enumerate(row) if c != 0 and (i == 0 or row[i - 1] != c)]
        texts.append("".join(chars))
    return texts


def train(reader, loader, device, epochs=50):
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    opt = torch.optim.Adadelta(reader.parameters(), lr=1.0)
    reader.to(device).train()
    for _ in range(epochs):
        for lines, targets, target_lengths in loader:
            logits = reader(lines.to(device, non_blocking=True))
            log_probs = torch.log(F.softmax(logits, dim=2))  # expect: ESP210
            widths = torch.full((lines.size(0),), logits.size(0), dtype=torch.long)
            loss = ctc(log_probs, targets, widths, target_lengths)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(reader.parameters(), 5)
            opt.step()
