"""Batching for the NER tagger."""
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

PAD_ID = 0
IGNORE = -100


def read_conll(path):
    words, tags, out = [], [], []
    with open(path, encoding="utf8") as fh:
        for line in fh:
            line = line.strip()
            if not line:
                if words:
                    out.append((words, tags))
                words, tags = [], []
                continue
            w, t = line.split()[0], line.split()[-1]
            words.append(w)
            tags.append(t)
    if words:
        out.append((words, tags))
    return out


class Vocab:
    def __init__(self, items, specials=()):
        self.itos = list(specials) + sorted(set(items))
        self.stoi = {s: i for i, s in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def get(self, s, default):
        return self.stoi.get(s, default)


class Sentences(Dataset):
    def __init__(self, rows, words, tags):
        self.rows, self.words, self.tags = rows, words, tags

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ws, ts = self.rows[i]
        return (torch.tensor([self.words.get(w.lower(), 1) for w in ws]),
                torch.tensor([self.tags.stoi[t] for t in ts]))


def collate(batch):
    ids, tags = zip(*batch)
    ids = pad_sequence(ids, batch_first=True, padding_value=PAD_ID)
    tags = pad_sequence(tags, batch_first=True, padding_value=IGNORE)
    mask = (ids != PAD_ID).long()
    return {"ids": ids, "mask": mask, "tags": tags}
