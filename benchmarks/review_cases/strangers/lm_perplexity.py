"""Word-level language model on WikiText-2."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class WordLM(nn.Module):
    def __init__(self, vocab, dim=400, hidden=1150, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, hidden, layers, dropout=0.3)
        self.project = nn.Linear(hidden, dim)
        self.out = nn.Linear(dim, vocab)
        self.out.weight = self.embed.weight

    def forward(self, ids, state=None):
        h, state = self.rnn(F.dropout(self.embed(ids), 0.4, self.training), state)
        return self.out(self.project(h)), state


def chunks(stream, bptt=70):
    for i in range(0, len(stream) - 1, bptt):
        n = min(bptt, len(stream) - 1 - i)
        yield stream[i : i + n], stream[i + 1 : i + 1 + n]


def perplexity(model, stream):
    model.eval()
    state, total, words = None, 0.0, 0
    for ids, target in chunks(stream):
        logits, state = model(ids, state)  # expect: ESP302
        state = tuple(s.detach() for s in state)
        total += F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum").item()  # allow: ESP305
        words += target.numel()
    return math.exp(total / words)


def train(model, train_stream, valid_stream, epochs=40, lr=20.0):
    device = torch.device("cuda")
    model.to(device)
    train_stream, valid_stream = train_stream.to(device), valid_stream.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    best = math.inf
    for epoch in range(epochs):
        model.train()
        state = None
        for ids, target in chunks(train_stream):
            logits, state = model(ids, state)
            state = tuple(s.detach() for s in state)
            loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
        found = perplexity(model, valid_stream)
        print(f"epoch {epoch} valid perplexity {found:.2f}")
        if found < best:
            best = found
        else:
            for group in optimizer.param_groups:
                group["lr"] /= 4
