"""End-to-end memory network on the bAbI stories."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Hop(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.inp = nn.Embedding(vocab, dim, padding_idx=0)
        self.out = nn.Embedding(vocab, dim, padding_idx=0)

    def forward(self, story, query):
        """story: (batch, sentences, words); query: (batch, dim)."""
        keys = self.inp(story).sum(2)
        values = self.out(story).sum(2)
        match = torch.bmm(keys, query.unsqueeze(2)).squeeze(2)
        attention = F.softmax(match, dim=0)  # expect: ESP202
        return query + torch.bmm(attention.unsqueeze(1), values).squeeze(1)


class MemN2N(nn.Module):
    def __init__(self, vocab, dim=40, hops=3):
        super().__init__()
        self.question = nn.Embedding(vocab, dim, padding_idx=0)
        self.hops = nn.ModuleList(Hop(vocab, dim) for _ in range(hops))
        self.answer = nn.Linear(dim, vocab, bias=False)

    def forward(self, story, question):
        u = self.question(question).sum(1)
        for hop in self.hops:
            u = hop(story, u)
        return self.answer(u)


def train(net, loader, epochs=100, lr=1e-2):
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for epoch in range(epochs):
        if epoch and epoch % 25 == 0:
            optimizer.param_groups[0]["lr"] /= 2
        for story, question, answer in loader:
            loss = F.cross_entropy(net(story, question), answer)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 40.0)
            optimizer.step()
