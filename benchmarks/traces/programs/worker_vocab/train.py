"""Train a bag of words with loader workers."""
import torch
from torch import nn
from torch.utils.data import DataLoader

from corpus import Corpus, make_sentences
from vocabulary import Vocabulary


class BagOfWords(nn.Module):
    """Mean of embeddings and one linear layer."""

    def __init__(self, words, classes, size=16):
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, size, padding_idx=0)
        self.head = nn.Linear(size, classes)

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


def main():
    torch.manual_seed(0)
    pairs = make_sentences(repeat=2)
    vocabulary = Vocabulary([sentence for sentence, _ in pairs])
    loader = DataLoader(Corpus(pairs, vocabulary), batch_size=8, num_workers=2)
    model = BagOfWords(len(vocabulary), 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        for tokens, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(tokens), labels)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
