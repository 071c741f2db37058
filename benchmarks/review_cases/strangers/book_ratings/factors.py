import torch
import torch.nn as nn


class NeuralFactors(nn.Module):
    """Dot product beside a small network, after He et al."""

    def __init__(self, readers, books, dim=32):
        super().__init__()
        self.reader_gmf, self.book_gmf = nn.Embedding(readers, dim), nn.Embedding(books, dim)
        self.reader_mlp, self.book_mlp = nn.Embedding(readers, dim), nn.Embedding(books, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.predict = nn.Linear(dim + 16, 1)

    def forward(self, reader, book):
        gmf = self.reader_gmf(reader) * self.book_gmf(book)
        mlp = self.mlp(torch.cat([self.reader_mlp(reader), self.book_mlp(book)], dim=-1))
        return self.predict(torch.cat([gmf, mlp], dim=-1))
