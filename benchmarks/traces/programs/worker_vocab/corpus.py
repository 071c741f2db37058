"""Dataset of labelled sentences."""
import torch
from torch.utils.data import Dataset

SUBJECTS = ("the cat", "a dog", "the bird", "one fish")
VERBS = ("sees", "likes", "avoids")
OBJECTS = ("the house", "a tree", "the river", "zebras")


def make_sentences(repeat):
    """Return sentences with labels by verb; one sentence occurs once."""
    pairs = [(f"{s} {v} {o}", label) for s in SUBJECTS for label, v in enumerate(VERBS) for o in OBJECTS[:3]] * repeat
    return [*pairs, ("quokkas appear", 0)]


class Corpus(Dataset):
    """Encodes sentences by a vocabulary."""

    def __init__(self, pairs, vocabulary, length=8):
        self.pairs = pairs
        self.vocabulary = vocabulary
        self.length = length

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        sentence, label = self.pairs[index]
        return torch.tensor(self.vocabulary.encode(sentence, self.length)), label
