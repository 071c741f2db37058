"""Word-level language model with an LSTM."""
import math
import time

import torch
import torch.nn as nn


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp=650, nhid=650, nlayers=2, dropout=0.5):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        return self.decoder(self.drop(out)), hidden

    def init_hidden(self, bsz):
        w = next(self.parameters())
        return w.new_zeros(2, bsz, 650), w.new_zeros(2, bsz, 650)


def repackage(h):
    return tuple(v.detach() for v in h)


def train(model, data, optimizer, bptt=35, log_interval=200):
    model.train()
    criterion = nn.CrossEntropyLoss()
    hidden = model.init_hidden(data.size(1))
    total_loss, start = 0.0, time.time()
    for batch, i in enumerate(range(0, data.size(0) - 1, bptt)):
        n = min(bptt, len(data) - 1 - i)
        x, y = data[i : i + n], data[i + 1 : i + 1 + n].reshape(-1)
        hidden = repackage(hidden)
        optimizer.zero_grad()
        out, hidden = model(x, hidden)
        loss = criterion(out.view(-1, out.size(-1)), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        total_loss += loss.item()  # expect: ESP305
        if batch % log_interval == 0 and batch > 0:
            cur = total_loss / log_interval
            print(f"batch {batch} | {1000 * (time.time() - start) / log_interval:.1f} ms | ppl {math.exp(cur):.2f}")
            total_loss, start = 0.0, time.time()


def main(corpus, ntoken):
    device = torch.device("cuda")
    model = RNNModel(ntoken).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=20)
    for _ in range(40):
        train(model, corpus.to(device), opt)
