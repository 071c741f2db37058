import torch
from torch.nn.utils.rnn import pad_sequence

LABELS = ["O", "B", "I", "E"]
PAD_LABEL = len(LABELS)


def encode(sentences):
    for words, labels in sentences:
        yield torch.tensor(words), torch.tensor([LABELS.index(label) for label in labels])


def merge(pairs):
    words, labels = zip(*pairs)
    return (
        pad_sequence(words, batch_first=True),
        pad_sequence(labels, batch_first=True, padding_value=PAD_LABEL),
    )
