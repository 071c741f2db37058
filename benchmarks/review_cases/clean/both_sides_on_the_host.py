"""Predictions come back to the CPU before they meet targets that stayed there."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self, bins, classes):
        super().__init__()
        self.conv = nn.Conv1d(bins, 128, 3, padding=1)
        self.rnn = nn.GRU(128, 128, batch_first=True)
        self.fc = nn.Linear(128, classes)

    def forward(self, x, lengths):
        h = torch.relu(self.conv(x)).transpose(1, 2)
        packed = nn.utils.rnn.pack_padded_sequence(h, lengths, batch_first=True, enforce_sorted=False)
        out, _ = self.rnn(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return self.fc(out)


def train(net, loader: DataLoader, device):
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    ctc = nn.CTCLoss(zero_infinity=True)
    net.to(device).train()
    for x, lengths, targets, target_lengths in loader:
        logp = net(x.to(device), lengths).log_softmax(-1).transpose(0, 1)
        loss = ctc(logp, targets.to(device), lengths, target_lengths)
        opt.zero_grad()
        loss.backward()
        opt.step()


def evaluate(net, loader, device):
    net.eval()
    errors, total = 0, 0
    with torch.no_grad():
        for x, lengths, targets, target_lengths in loader:
            pred = net(x.to(device), lengths).argmax(-1).cpu()
            for row, n, gold, m in zip(pred, lengths.tolist(), targets, target_lengths.tolist()):
                hyp = torch.unique_consecutive(row[:n])
                errors += edit_distance(hyp[hyp != 0].tolist(), gold[:m].tolist())
                total += m
    return errors / total


def edit_distance(a, b):
    prev = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        cur = [i]
        for j, y in enumerate(b, 1):
            cur.append(min(prev[j] + 1, cur[-1] + 1, prev[j - 1] + (x != y)))
        prev = cur
    return prev[-1]


def confusion(net, loader, device, classes):
    net.eval()
    matrix = torch.zeros(classes, classes, dtype=torch.long)
    with torch.inference_mode():
        for x, lengths, y in loader:
            pred = net(x.to(device), lengths).mean(1).argmax(-1).to("cpu")
            matrix += torch.bincount(classes * y + pred, minlength=classes**2).view(classes, classes)
    return matrix
