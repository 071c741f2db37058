import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

TEXTS = ["good day", "", "what a bad day", "ok"]
STOP = {"a", "the"}


class Tweets(Dataset):
    def __init__(self, texts):
        words = sorted({w for t in texts for w in t.split()} - STOP)
        self.ids = {w: i + 1 for i, w in enumerate(words)}
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        kept = [self.ids[w] for w in self.texts[i].split() if w in self.ids]
        return torch.tensor(kept, dtype=torch.long)


def pad(batch):
    lengths = torch.tensor([len(b) for b in batch])
    return pad_sequence(batch, batch_first=True), lengths
