"""Named entity tagging with a BiLSTM."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Tagger(nn.Module):
    def __init__(self, vocab, tags, emb=100, hidden=200):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hidden // 2, num_layers=2, bidirectional=True, batch_first=True, dropout=0.3)
        self.hidden2tag = nn.Linear(hidden, tags)

    def forward(self, tokens):
        h, _ = self.lstm(self.embed(tokens))
        return self.hidden2tag(h)


def step(model, batch, optimizer, device):
    tokens, tags = batch["tokens"].to(device), batch["tags"].to(device)
    logits = model(tokens)  # (batch, time, tags)
    b, t = tokens.shape
    targets = tags.view(b, t)
    loss = F.cross_entropy(logits, targets, ignore_index=-100)  # expect: ESP105
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def fit(model, loader, epochs, device="cuda"):
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        model.train()
        total = sum(step(model, batch, optimizer, device) for batch in loader)
        print(epoch, total.item() / len(loader))
