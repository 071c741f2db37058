"""Batches of tokenized sentences with padding."""
import torch
from torch.nn.utils.rnn import pad_sequence


class PaddingCollator:
    """Pads the token ids of a batch and builds the attention mask."""

    def __init__(self, pad_id=0):
        self.pad_id = pad_id

    def __call__(self, samples):
        ids = pad_sequence([sample["ids"] for sample in samples], batch_first=True, padding_value=self.pad_id)
        return {
            "ids": ids,
            "mask": ids != self.pad_id,
            "label": torch.tensor([sample["label"] for sample in samples]),
        }
