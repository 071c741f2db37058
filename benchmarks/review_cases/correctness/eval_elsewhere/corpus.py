import csv
from collections import Counter

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def read(path):
    with open(path, newline="") as handle:
        return [(int(row[0]) - 1, row[1].lower().split()) for row in csv.reader(handle)]


def make_loaders(root, batch_size=64):
    train, dev = read(f"{root}/train.csv"), read(f"{root}/dev.csv")
    counts = Counter(word for _, words in train for word in words)
    vocab = {"<pad>": 0, "<unk>": 1, **{w: i + 2 for i, (w, c) in enumerate(counts.most_common(30000))}}

    def collate(batch):
        labels = torch.tensor([label for label, _ in batch])
        rows = [torch.tensor([vocab.get(w, 1) for w in words]) for _, words in batch]
        return pad_sequence(rows, batch_first=True), torch.tensor([len(r) for r in rows]), labels

    make = lambda part, shuffle: DataLoader(part, batch_size, shuffle=shuffle, collate_fn=collate, num_workers=2)
    return make(train, True), make(dev, False), vocab, 4
