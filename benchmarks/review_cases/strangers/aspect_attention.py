"""Sentiment about one aspect of a restaurant review (ATAE-LSTM)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AspectLSTM(nn.Module):
    def __init__(self, vocab, aspects, dim=200, hidden=150, polarity=3):
        super().__init__()
        self.word = nn.Embedding(vocab, dim, padding_idx=0)
        self.aspect = nn.Embedding(aspects, dim)
        self.lstm = nn.LSTM(2 * dim, hidden, batch_first=True)
        self.score = nn.Linear(hidden + dim, 1)
        self.out = nn.Linear(hidden, polarity)

    def forward(self, tokens, aspect):
        words = self.word(tokens)
        about = self.aspect(aspect).unsqueeze(1).expand(-1, tokens.size(1), -1)
        states, _ = self.lstm(torch.cat([words, about], dim=-1))
        energy = self.score(torch.tanh(torch.cat([states, about], dim=-1))).squeeze(-1)
        energy = energy.masked_fill(tokens == 0, -1e9)
        weights = F.softmax(energy)  # expect: ESP202
        summary = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
        return self.out(summary), weights


def step(model, batch, optimizer):
    logits, _ = model(batch["tokens"], batch["aspect"])
    loss = F.cross_entropy(logits, batch["polarity"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
