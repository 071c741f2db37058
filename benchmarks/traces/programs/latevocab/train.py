import torch
from torch import nn
from words import Words


class Tagger(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.table = nn.Embedding(count, 4)

    def forward(self, ids):
        return self.table(ids)


words = Words("the cat saw the dog")
tagger = Tagger(len(words))
words.add("<mask>")
print(tagger(torch.tensor(words.encode("the <mask> saw"))).shape)
