"""Vocabulary of a corpus."""
from collections import Counter


class Vocabulary:
    """Maps frequent words to ids."""

    def __init__(self, sentences, least=2):
        counts = Counter(word for sentence in sentences for word in sentence.split())
        kept = sorted(word for word, count in counts.items() if count >= least)
        self.ids = {word: number for number, word in enumerate(["<pad>", "<unk>", *kept])}

    def __len__(self):
        return len(self.ids)

    def encode(self, sentence, length):
        ids = [self.ids[word] for word in sentence.split()][:length]
        return ids + [self.ids["<pad>"]] * (length - len(ids))
