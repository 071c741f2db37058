import torch
from torch import nn
from torch.utils.data import DataLoader

from tags import LABELS, encode, merge

DATA = [([3, 4, 5], ["O", "B", "I"]), ([7, 2], ["O", "O"]), ([1, 8, 8, 9], ["B", "I", "E", "O"])]


class Tagger(nn.Module):
    def __init__(self, vocab=12, dim=10):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.project = nn.Linear(dim, len(LABELS))

    def forward(self, words):
        states, _ = self.gru(self.embed(words))
        return self.project(states).transpose(1, 2)


class Loop:
    def __init__(self):
        self.tagger = Tagger()
        self.objective = nn.CrossEntropyLoss()
        self.adam = torch.optim.Adam(self.tagger.parameters())

    def epoch(self, data):
        for words, labels in DataLoader(data, batch_size=3, collate_fn=merge):
            loss = self.objective(self.tagger(words), labels)
            self.adam.zero_grad()
            loss.backward()
            self.adam.step()


if __name__ == "__main__":
    Loop().epoch(list(encode(DATA)))
