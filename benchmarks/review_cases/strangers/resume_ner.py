"""Pulls skills, employers and dates out of resumes with the tagger trained in train_tagger.py."""
import json
import sys

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

TAGS = ["O", "B-SKILL", "I-SKILL", "B-ORG", "I-ORG", "B-DATE", "I-DATE"]


class Tagger(nn.Module):
    def __init__(self, vocab, dim=128, hidden=192, tags=len(TAGS)):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.drop = nn.Dropout(0.35)
        self.encoder = nn.LSTM(dim, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
        self.tag = nn.Linear(2 * hidden, tags)

    def forward(self, ids):
        hidden, _ = self.encoder(self.drop(self.embed(ids)))
        return self.tag(self.drop(hidden))


def load(folder, device):
    with open(f"{folder}/vocab.json") as handle:
        vocab = json.load(handle)
    model = Tagger(len(vocab))
    model.load_state_dict(torch.load(f"{folder}/tagger.pt", map_location="cpu", weights_only=True))
    return model.to(device), vocab


def spans(tags):
    start = None
    for i, tag in enumerate([*tags, "O"]):
        if start is not None and not tag.startswith("I-"):
            yield start, i, tags[start][2:]
            start = None
        if tag.startswith("B-"):
            start = i


def extract(folder, documents, device="cuda"):
    model, vocab = load(folder, device)
    found = []
    with torch.no_grad():
        for start in range(0, len(documents), 32):
            words = documents[start : start + 32]
            ids = pad_sequence([torch.tensor([vocab.get(w.lower(), 1) for w in d]) for d in words], batch_first=True)
            best = model(ids.to(device)).argmax(-1).tolist()  # expect: ESP102  # allow: ESP305
            for document, row in zip(words, best):
                tags = [TAGS[t] for t in row[: len(document)]]
                found.append([(label, " ".join(document[a:b])) for a, b, label in spans(tags)])
    return found


if __name__ == "__main__":
    texts = [line.split() for line in sys.stdin]
    print(json.dumps(extract(sys.argv[1], texts), indent=2))
