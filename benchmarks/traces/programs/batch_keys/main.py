"""Classify sentences of random tokens."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from collate import PaddingCollator
from trainer import Trainer


class Sentences(Dataset):
    """Random sentences of different lengths."""

    def __init__(self, count, vocabulary):
        self.sentences = [torch.randint(1, vocabulary, (int(torch.randint(3, 15, ())),)) for _ in range(count)]

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, index):
        return {"ids": self.sentences[index], "label": index % 2}


class MeanPool(nn.Module):
    """Masked mean of embeddings."""

    def __init__(self, vocabulary, size, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.head = nn.Linear(size, classes)

    def forward(self, ids, mask):
        weights = mask.float().unsqueeze(-1)
        pooled = (self.embedding(ids) * weights).sum(1) / weights.sum(1)
        return self.head(pooled)


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Sentences(64, 90), batch_size=8, collate_fn=PaddingCollator())
    model = MeanPool(90, 24, 2)
    trainer = Trainer(model, torch.optim.Adam(model.parameters()), nn.CrossEntropyLoss())
    trainer.fit(loader, epochs=2)
    print(trainer.history)
