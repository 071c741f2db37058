import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from lexicon import Lexicon

TRAIN = [("turn on the light", 0), ("play some music", 1), ("turn off the light", 0), ("stop the music", 1)]
VALID = [("turn on the radio", 1), ("dim the light please", 0)]


class BagOfWords(nn.Module):
    def __init__(self, words, classes, width=16):
        super().__init__()
        self.table = nn.Embedding(words, width, padding_idx=0)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        vectors = self.table(tokens)
        keep = (tokens != 0).unsqueeze(-1)
        return self.head((vectors * keep).sum(1) / keep.sum(1).clamp(min=1))


class Collator:
    def __init__(self, lexicon):
        self.lexicon = lexicon

    def __call__(self, rows):
        tokens = [torch.tensor(self.lexicon.encode(text)) for text, _ in rows]
        return pad_sequence(tokens, batch_first=True), torch.tensor([label for _, label in rows])


def accuracy(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for tokens, labels in loader:
            right += (model(tokens).argmax(1) == labels).sum().item()
            total += len(labels)
    return right / total


def main():
    lexicon = Lexicon(text for text, _ in TRAIN)
    model = BagOfWords(len(lexicon), 2)
    collate = Collator(lexicon)
    train = DataLoader(TRAIN, batch_size=2, collate_fn=collate)
    valid = DataLoader(VALID, batch_size=2, collate_fn=collate)
    opt = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model.train()
        for tokens, labels in train:
            loss = nn.functional.cross_entropy(model(tokens), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("valid", accuracy(model, valid))


main()
