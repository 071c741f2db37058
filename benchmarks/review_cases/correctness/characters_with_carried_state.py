"""Truncated BPTT character model."""
import torch
from torch import nn


class CharModel(nn.Module):
    def __init__(self, vocab, hidden=256):
        super().__init__()
        self.embed = nn.Embedding(vocab, 64)
        self.rnn = nn.LSTM(64, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def init_state(self, batch, device):
        h = torch.zeros(2, batch, 256, device=device)
        return h, torch.zeros_like(h)

    def forward(self, tokens, state):
        out, state = self.rnn(self.embed(tokens), state)
        return self.head(out), state


class Trainer:
    def __init__(self, model, lr=2e-3, device="cuda"):
        self.model = model.to(device)
        self.device = device
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()

    def run_epoch(self, chunks, batch):
        self.model.train()
        self.state = self.model.init_state(batch, self.device)
        for tokens, targets in chunks:
            self.train_step(tokens.to(self.device), targets.to(self.device))

    def train_step(self, tokens, targets):
        self.optimizer.zero_grad()
        logits, self.state = self.model(tokens, self.state)  # expect: ESP110
        loss = self.criterion(logits.transpose(1, 2), targets)
        loss.backward(retain_graph=True)
        self.optimizer.step()
